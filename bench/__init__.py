"""Measurements of hintcell, and the demonstration that shows them. Not part of the package that is installed."""
