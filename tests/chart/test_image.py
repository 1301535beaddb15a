"""The Dockerfile and the image that tests make without an engine are one image."""

from __future__ import annotations

import re
import shlex

from tests.cluster import image

DOCKERFILE = (image.ROOT / "Dockerfile").read_text(encoding="utf-8")
IGNORED = (image.ROOT / ".dockerignore").read_text(encoding="utf-8")
INSTALL = (image.ROOT / "image/install.sh").read_text(encoding="utf-8")


def test_what_is_installed_is_named_outside_of_the_dockerfile():
    runs = re.findall(r"^RUN (.*)", DOCKERFILE.replace("\\\n", " "), re.MULTILINE)
    assert len(runs) == 4
    assert "< /tmp/packages.txt" in runs[0]
    assert "python3-venv" in runs[1]  # of the stage that is thrown away
    assert runs[2:] == ["image/install.sh dependencies /out", "image/install.sh project /out"]


def test_packages_are_sorted_so_that_a_list_has_one_digest():
    assert image.packages() == sorted(set(image.packages()))


def test_an_image_made_without_an_engine_has_the_settings_of_the_dockerfile():
    settings = image.settings()
    assert settings[settings.index("--user") + 1] == "10001:10001"
    assert settings[settings.index("--cmd") + 1] == '["/bin/bash"]'
    assert "HOME=/tmp" in settings
    assert "org.opencontainers.image.licenses=Apache-2.0" in settings


def test_the_build_is_given_what_it_takes_and_no_more():
    copies = re.findall(r"^COPY (?!--from)(.*) ", DOCKERFILE, re.MULTILINE)
    copied = {word for line in copies for word in line.split()}
    taken = {word.split("/")[0] for word in copied if word != "."} | set(re.findall(r"copy (\w+) ", INSTALL))
    let_through = {line[1:] for line in IGNORED.splitlines() if line.startswith("!")}
    assert let_through == taken


def test_the_user_is_a_number_so_that_kubernetes_can_see_that_it_is_not_root():
    (user,) = re.findall(r"^USER (.*)", DOCKERFILE, re.MULTILINE)
    assert all(int(part) > 0 for part in user.split(":"))


def test_everything_installed_is_checked_by_its_checksum():
    installs = [line for line in INSTALL.replace("\\\n", " ").splitlines() if "pip" in line and " install " in line]
    assert len(installs) == 2
    assert all("--require-hashes" in shlex.split(line) for line in installs)
