"""The same graph for each tool. A task reads what the one before it made, adds its own number and writes its own file;
the first of each chain reads `start`. No two tasks make the same bytes, so that no tool can do one for many."""

import os

CHAIN = 10  # tasks in a row; chains are independent of each other


def before(i):
    """The task that task i reads from, or None for the first of a chain."""
    return i - 1 if i % CHAIN else None


def ninja(folder, n):
    with open(os.path.join(folder, "build.ninja"), "w") as f:
        f.write("rule step\n  command = { cat $in; echo $i; } > $out\n")
        for i in range(n):
            source = "start" if before(i) is None else f"out/{before(i)}"
            f.write(f"build out/{i}: step {source}\n  i = {i}\n")


def make(folder, n):
    with open(os.path.join(folder, "Makefile"), "w") as f:
        f.write(f"all: {' '.join(f'out/{i}' for i in range(n))}\n")
        for i in range(n):
            source = "start" if before(i) is None else f"out/{before(i)}"
            f.write(f"out/{i}: {source}\n\t@{{ cat {source}; echo {i}; }} > $@\n")
    os.makedirs(os.path.join(folder, "out"), exist_ok=True)


def snakemake(folder, n):
    """One rule for all: written out, Snakemake would be slower still."""
    with open(os.path.join(folder, "Snakefile"), "w") as f:
        f.write(f"rule all:\n    input: [f'out/{{i}}' for i in range({n})]\n"
                "rule step:\n"
                f"    input: lambda w: 'start' if int(w.i) % {CHAIN} == 0 else f'out/{{int(w.i) - 1}}'\n"
                "    output: 'out/{i}'\n"
                "    shell: '{{ cat {input}; echo {wildcards.i}; }} > {output}'\n")


def cairn_steps(folder, n):
    """n steps written out in YAML."""
    with open(os.path.join(folder, "pipeline.yaml"), "w") as f:
        f.write("pipeline: bench\ninputs:\n  start: start\nsteps:\n")
        for i in range(n):
            source = "inputs.start" if before(i) is None else f"steps.t{before(i)}.outputs.o"
            f.write(f"  t{i}:\n    run: '{{ cat ${{{{ inputs.i }}}}; echo {i}; }} > ${{{{ outputs.o }}}}'\n"
                    f"    inputs: {{i: \"${{{{ {source} }}}}\"}}\n    outputs: {{o: o}}\n")
    project(folder)


def cairn_matrix(folder, n):
    """One step of n tasks: axes of at most 100 values each."""
    axes, left = [], n
    while left > 1:
        size = min(left, 100)
        axes.append(size)
        left //= size
    names = [f"a{k}" for k in range(len(axes))]
    with open(os.path.join(folder, "pipeline.yaml"), "w") as f:
        f.write("pipeline: bench\ninputs:\n  start: start\nsteps:\n  t:\n    matrix:\n")
        for name, size in zip(names, axes):
            f.write(f"      {name}: [{', '.join(str(v) for v in range(size))}]\n")
        number = "-".join(f"${{{{ matrix.{name} }}}}" for name in names)
        f.write(f"    run: '{{ cat ${{{{ inputs.i }}}}; echo {number}; }} > ${{{{ outputs.o }}}}'\n"
                "    inputs: {i: \"${{ inputs.start }}\"}\n    outputs: {o: o}\n")
    project(folder)


def cairn_ingest(folder, what):
    """A step that only names what is to be taken in."""
    with open(os.path.join(folder, "pipeline.yaml"), "w") as f:
        f.write(f"pipeline: ingest\ninputs:\n  data: {what}\nsteps:\n  t:\n    run: 'echo done > ${{{{ outputs.o }}}}'\n"
                "    inputs: {data: \"${{ inputs.data }}\"}\n    outputs: {o: o}\n")
    project(folder)


def cairn_group(folder, n):
    """The steps of cairn_steps() in a concurrency group of one place."""
    cairn_steps(folder, n)
    with open(os.path.join(folder, "pipeline.yaml")) as f:
        text = f.read().replace("outputs: {o: o}\n", "outputs: {o: o}\n    concurrency: {group: one}\n")
    with open(os.path.join(folder, "pipeline.yaml"), "w") as f:
        f.write(text)


STAGES = ("prepare", "train", "evaluate")  # each reads all of data/ and what the one before it made


def stage(i, data, before, out):
    return f"cat {data}/* {before} | cksum > {out}"


def stages_script(folder, jobs):
    """A plain shell script, and one SHA-256 of the data on all cores."""
    with open(os.path.join(folder, "run.sh"), "w") as f:
        f.write("set -e\nrm -rf out\nmkdir out\n" f"ls data/* | xargs -P {jobs} -n 1 openssl dgst -sha256 > out/sums\n")
        for i, name in enumerate(STAGES):
            f.write(stage(i, "data", f"out/{STAGES[i - 1]}" if i else "", f"out/{name}") + "\n")


def stages_dvc(folder):
    with open(os.path.join(folder, "dvc.yaml"), "w") as f:
        f.write("stages:\n")
        for i, name in enumerate(STAGES):
            before = f"out/{STAGES[i - 1]}" if i else ""
            f.write(f"  {name}:\n    cmd: mkdir -p out && {stage(i, 'data', before, f'out/{name}')}\n"
                    f"    deps: [{', '.join(filter(None, ['data', before]))}]\n    outs: [out/{name}]\n")


def stages_cairn(folder, mode):
    with open(os.path.join(folder, "pipeline.yaml"), "w") as f:
        f.write(f"pipeline: stages\ninputs:\n  data: {{uri: data/, mode: {mode}}}\nsteps:\n")
        for i, name in enumerate(STAGES):
            more = f", before: \"${{{{ steps.{STAGES[i - 1]}.outputs.o }}}}\"" if i else ""
            command = stage(i, "${{ inputs.data }}", "${{ inputs.before }}" if i else "", "${{ outputs.o }}")
            f.write(f"  {name}:\n    run: '{command}'\n    inputs: {{data: \"${{{{ inputs.data }}}}\"{more}}}\n    outputs: {{o: o}}\n")
    project(folder)


def cairn_sweep(folder, n, salt):
    """n tasks that read one input; `salt` makes them new."""
    with open(os.path.join(folder, "pipeline.yaml"), "w") as f:
        f.write(f"pipeline: sweep\ninputs:\n  data: data/\nsteps:\n  t:\n    matrix:\n      i: [{', '.join(str(i) for i in range(n))}]\n"
                f"    run: '{{ cat ${{{{ inputs.data }}}}/* | cksum; echo ${{{{ matrix.i }}}} {salt}; }} > ${{{{ outputs.o }}}}'\n"
                "    inputs: {data: \"${{ inputs.data }}\"}\n    outputs: {o: o}\n")
    project(folder)


def data(folder, mib, files=16):
    """`mib` MiB of random bytes in files of data/."""
    os.makedirs(os.path.join(folder, "data"))
    for i in range(files):
        with open(os.path.join(folder, "data", str(i)), "wb") as f:
            for left in range(mib * (1 << 20) // files, 0, -(1 << 20)):
                f.write(os.urandom(min(left, 1 << 20)))


def project(folder):
    with open(os.path.join(folder, "cairn.yaml"), "w") as f:
        f.write("# a project of its own\n")


def fresh(folder):
    os.makedirs(folder)
    with open(os.path.join(folder, "start"), "w") as f:
        f.write("start\n")
    return folder
