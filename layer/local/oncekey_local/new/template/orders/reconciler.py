"""The reconciler: ends dead attempts and settles operations, each minute.

Give it a resolver for each operation whose outcome can be unknown:
`Reconciler(resolvers=[ask_the_carrier])`. The service has none such, because its
effects are recorded and its step is idempotent.
"""

from oncekey.reconciler import Reconciler

handler = Reconciler()
