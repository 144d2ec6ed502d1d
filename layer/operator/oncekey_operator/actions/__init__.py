"""Changing what is stored, through the layer's own flows. Each action has its audit lines."""
