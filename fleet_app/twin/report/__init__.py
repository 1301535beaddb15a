"""What a run comes to: `tally` counts its records into `figures`; `compare`, `charts` and `page` show them. Pure."""
