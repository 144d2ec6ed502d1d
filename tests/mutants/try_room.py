import sys, time
from pathlib import Path
from tests.mutants import covering, tool, processes
room, only, sample, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
cov = covering.Coverage(*[Path(f".mutants/{f}.jsonl") for f in tool.TESTS_OF[room] if Path(f".mutants/{f}.jsonl").exists()])
faults = tool.drawn(tool.possible_faults(room, only), sample, seed)
print(len(tool.possible_faults(room, only)), "possible")
processes.import_what_is_heavy()
run = tool.Run(room, cov, lambda t: print(t, flush=True))
def work(w):
    print(len(w.items), "items", flush=True)
    t=time.time()
    run.show(faults, w)
    r = run.result
    print(f"{r.tried} tried {r.caught} caught {len(r.survivors)} survived {len(r.untested)} untested in {time.time()-t:.0f}s")
folders=[f"tests/{f}" for f in tool.TESTS_OF[room] if Path(f".mutants/{f}.jsonl").exists()]
processes.warm(folders, work)
