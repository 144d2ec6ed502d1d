"""A description whose module imports a package that is not installed."""

from not_installed import SERVICE  # type: ignore[import-not-found]  # noqa: F401
