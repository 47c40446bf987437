"""Optuna's samplers on the functions of search.c, in one process: prints what bench_search prints. Exit 77 with the reason without Optuna."""

import math
import statistics
import sys
import time

A = ((10, 3, 17, 3.5, 1.7, 8), (0.05, 10, 17, 0.1, 8, 14), (3, 3.5, 1.7, 10, 17, 8), (17, 8, 0.05, 10, 0.1, 14))
P = ((0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886), (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
     (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650), (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381))


def sphere(x):
    return sum((v - 1) ** 2 for v in x)


def branin(x):
    return (x[1] - 5.1 / (4 * math.pi ** 2) * x[0] ** 2 + 5 / math.pi * x[0] - 6) ** 2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x[0]) + 10


def hartmann6(x):
    return -sum(c * math.exp(-sum(a * (v - p) ** 2 for a, p, v in zip(A[i], P[i], x))) for i, c in enumerate((1, 1.2, 3, 3.2)))


def rosenbrock(x):
    return sum(100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2 for i in range(3))


FUNCTIONS = {"sphere": (sphere, [(-5, 5)] * 4), "branin": (branin, [(-5, 10), (0, 15)]), "hartmann6": (hartmann6, [(0, 1)] * 6),
             "rosenbrock": (rosenbrock, [(-2.048, 2.048)] * 4)}


def main(trials, seeds):
    try:
        import optuna
    except ImportError as why:
        print(f"no Optuna here: {why}", file=sys.stderr)
        return 77
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    print(f"# optuna {optuna.__version__}")
    samplers = {"random": lambda s: optuna.samplers.RandomSampler(seed=s), "sobol": lambda s: optuna.samplers.QMCSampler(seed=s),
                "tpe": lambda s: optuna.samplers.TPESampler(seed=s)}
    for name, (fn, ranges) in FUNCTIONS.items():
        for sampler, make in samplers.items():
            begin, best = time.process_time(), []
            for seed in range(seeds):
                try:
                    study = optuna.create_study(sampler=make(seed))
                except ImportError as why:  # sobol needs SciPy
                    print(f"{sampler}: {why}", file=sys.stderr)
                    break
                study.optimize(lambda t: fn([t.suggest_float(f"x{i}", *r) for i, r in enumerate(ranges)]), n_trials=trials)
                best.append(study.best_value)
            if best:
                print(f"{name}\t{sampler}\t{statistics.median(best):.6g}\t{(time.process_time() - begin) * 1e6 / (seeds * trials):.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
