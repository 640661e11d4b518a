"""Paths as callers give them."""
from __future__ import annotations

import os

__all__ = ["need_connection", "place_of", "secret", "spelled"]


def place_of(path):
    """Returns a path as text; "~" is the home directory, as in other libraries of Python."""
    path = os.fspath(path)
    return os.path.expanduser(path) if path.startswith("~") else path


def need_connection(connection, path):
    if connection is None and os.fspath(path).startswith("db:"):
        raise ValueError(f"{path} is in a database: pass connection=")


def secret(options):
    """Returns the state of an Array that is made with these options: where its key is."""
    return {"key_file": os.path.abspath(place_of(options["key_file"]))} if options.get("key_file") else {}


def spelled(path):
    """Returns a path as the paths of what is found below it are spelled: az:// is azure://, and gs:// is gcs://."""
    scheme, separator, rest = path.partition("://")
    return {"az": "azure", "gs": "gcs"}.get(scheme, scheme) + separator + rest
