"""skillbench: a benchmark suite for skill retrieval in LLM agents."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("skillbench")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

# Rises whenever a change can move a number that an earlier version reported for the same input.
PROTOCOL_VERSION = 2
