"""`assert_idempotent`: its stage, its plays, and the promises and mistakes that it knows."""
