"""The reconciler: settles what nobody else does."""
