"""Histories of other systems, and of our own, as rows that the twin can be fed with: a module a format.

A reader is any function from lines of text to what they say (`reading.Reader`); users can bring their own.
"""
