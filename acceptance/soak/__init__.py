"""Mixed load for a given time, on a plain and a TLS server, and a verdict on what the servers kept of it.

Only the standard library is used, so that `scripts/soak` needs no Python environment.
"""
