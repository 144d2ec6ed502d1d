import sys, time
from tests.mutants import hand, processes, registry
areas = sys.argv[1].split(",")
only = sys.argv[2] if len(sys.argv) > 2 else ""
ws = [w for w in registry.everything() if w.area in areas and only in w.name and (only or w.name not in hand.caught().get(w.area,{}))]
processes.import_what_is_heavy()
def work(w):
    print(len(w.items), "items", len(ws), "weakenings", flush=True)
    t=time.time()
    left = hand.show(ws, w, lambda t: print(t, flush=True))
    print(len(left), "survived", f"{time.time()-t:.0f}s")
processes.warm(hand.tests_of(ws), work, marked="")
