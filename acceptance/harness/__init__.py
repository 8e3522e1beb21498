"""Shared code of the acceptance tests. It uses a running server and never imports its code."""
