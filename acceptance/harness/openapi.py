"""The description of the API, openapi.yaml, which the gateway also serves."""

from pathlib import Path

import yaml

PATH = Path(__file__).resolve().parent.parent.parent / "openapi.yaml"


def parse(text):
    """A document of its own. With libyaml: in Python alone it takes two seconds, in each process that imports this."""
    return yaml.load(text, yaml.CSafeLoader)


# Not to be changed.
DOCUMENT = parse(PATH.read_text())
