"""`cairn import`: each file is imported and run, and what can't be said is listed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SRC

import cairn
from cairn import cli
from cairn.importer.model import Names, Pipeline, Quotes, ident, scalar, write_values

yaml = pytest.importorskip("yaml")


@pytest.fixture
def take(project, tmp_path, monkeypatch):
    """take(name, text, **files): imports, and returns the answer."""

    def run(name, text, **files):
        project("", **files)
        (tmp_path / "pipeline.yaml").unlink()
        (tmp_path / name).write_text(text)
        return take_file(name)

    return run


def take_file(*args):
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    out = subprocess.run(
        [sys.executable, "-m", "cairn.importer", *args, "--json"],
        capture_output=True,
        text=True,
        env=env,
    )
    assert out.returncode == 0, out.stderr
    found = json.loads(out.stdout)
    assert found["schema"] == "cairn.import/1"
    return found


def value(what):
    return cairn.artifact(what).load()


# DVC

DVC = """
vars: [{greeting: hello}]
stages:
  split:
    foreach: [a, b]
    do:
      cmd: mkdir -p parts && echo ${greeting} ${item} ${size} >parts/${item}.txt
      params: [size, deep.kind]
      outs:
      - parts/${item}.txt
  upper:
    foreach: [a, b]
    do:
      cmd: tr a-z A-Z <parts/${item}.txt >up/${item}.txt
      deps:
      - parts/${item}.txt
      outs:
      - up/${item}.txt: {cache: false}
  join:
    cmd:
    - cat up/a.txt up/b.txt table.csv >all.txt
    - python3 count.py
    deps: [up/a.txt, up/b.txt, count.py, table.csv]
    params: [deep]
    outs: [all.txt]
    metrics: [{m.json: {cache: false}}]
  below:
    wdir: w
    cmd: cat ../all.txt >o.txt
    deps: [../all.txt]
    outs: [o.txt]
    frozen: true
    sleep: 3
plots: [m.json]
"""
COUNT = """
import json
p = json.load(open("params.yaml"))  # JSON is YAML
text = open("all.txt").read()
json.dump({"length": len(text), "kind": len(p["deep"]["kind"])}, open("m.json", "w"))
"""


def test_dvc(take, tmp_path):
    found = take(
        "dvc.yaml",
        DVC,
        count_py=COUNT,
        table_csv="t\n",
    )
    # Before params.yaml is there, its values are missing.
    assert any("`${size}` has no value" in n["what"] for n in found["notes"])
    (tmp_path / "params.yaml").write_text("size: 1e-3\ndeep: {kind: 'a \"b\" $x', list: [1, 2]}\n")
    found = take_file("dvc.yaml", "--replace")
    assert (found["format"], found["steps"], found["linked"]) == ("dvc", 4, 0)
    lines = {n["line"] for n in found["notes"]}
    assert lines == {32, 33, 34}, found["notes"]
    run = cairn.run()
    assert value("join/all") == "HELLO A 0.001\nHELLO B 0.001\nt\n" == value("below/o")
    assert run.metrics["join"] == {"length": 30, "kind": 8}
    # A param of one stage changes what that stage makes, and no other.
    again = cairn.run(params={"deep": {"list": [1]}})
    assert again.counts["executed"] == 1 and again.counts["hits"] == 5
    cairn.run(params={"size": 2})
    assert value("join/all") == "HELLO A 2\nHELLO B 2\nt\n"


def test_data_of_dvc_is_not_copied(take, tmp_path):
    project = tmp_path
    cache = project / ".dvc" / "cache" / "files" / "md5"
    take_from = {"00" + "a" * 30: "one\n", "11" + "b" * 30: "two\n", "22" + "c" * 30: "three\n"}
    for md5, text in take_from.items():
        (cache / md5[:2]).mkdir(parents=True, exist_ok=True)
        (cache / md5[:2] / md5[2:]).write_text(text)
    one, two, three = take_from
    listing = [{"md5": two, "relpath": "x/two.txt"}, {"md5": three, "relpath": "three.txt"}]
    (cache / "33").mkdir()
    (cache / "33" / ("d" * 30 + ".dir")).write_text(json.dumps(listing))
    (project / "raw.txt.dvc").write_text(f"outs: [{{md5: {one}, path: raw.txt}}]\n")
    (project / "many.dvc").write_text(f"outs: [{{md5: 33{'d' * 30}.dir, path: many}}]\n")
    (project / "lost.txt.dvc").write_text(f"outs: [{{md5: 44{'e' * 30}, path: lost.txt}}]\n")
    found = take(
        "dvc.yaml",
        "stages: {s: {cmd: cat raw.txt many/x/two.txt many/three.txt >o.txt, "
        "deps: [raw.txt, many], outs: [o.txt]},\n"
        " t: {cmd: cat lost.txt >p.txt, deps: [lost.txt], outs: [p.txt]}}\n",
    )
    assert found["linked"] == 3
    assert [n["file"] for n in found["notes"]] == ["lost.txt.dvc"]
    assert "dvc pull" in found["notes"][0]["todo"]
    cairn.run(targets="s")
    assert value("s/o") == "one\ntwo\nthree\n"
    # The cache, the project and the store have one file together.
    in_cache = os.stat(cache / one[:2] / one[2:])
    assert in_cache.st_ino == os.stat(project / "raw.txt").st_ino and in_cache.st_nlink == 3


def test_a_listing_that_leads_out_is_refused(take, tmp_path):
    cache = tmp_path / ".dvc" / "cache" / "files" / "md5"
    for md5, text in (
        (("00" + "a" * 30), "x"),
        ("11" + "b" * 30 + ".dir", json.dumps([{"md5": "00" + "a" * 30, "relpath": "../../out"}])),
    ):
        (cache / md5[:2]).mkdir(parents=True, exist_ok=True)
        (cache / md5[:2] / md5[2:]).write_text(text)
    (tmp_path / "d.dvc").write_text(f"outs: [{{md5: 11{'b' * 30}.dir, path: d}}]\n")
    (tmp_path / "dvc.yaml").write_text("stages: {s: {cmd: ls d, deps: [d]}}\n")
    out = subprocess.run(
        [sys.executable, "-m", "cairn.importer", "dvc.yaml"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )
    assert out.returncode == 2 and "names a file outside" in out.stderr
    assert not (tmp_path.parent / "out").exists()


# Argo

ARGO = """
apiVersion: argoproj.io/v1alpha1
kind: CronWorkflow
metadata: {name: nightly}
spec:
  schedules: ["0 3 * * *"]
  timezone: Europe/Berlin
  concurrencyPolicy: Forbid
  workflowSpec:
    entrypoint: main
    onExit: bye
    arguments: {parameters: [{name: who, value: "it's $HOME"}, {name: n, value: 3}]}
    templates:
    - name: main
      dag:
        tasks:
        - {name: make, template: make}
        - name: use
          depends: make
          template: use
          arguments:
            parameters: [{name: text, value: "{{tasks.make.outputs.parameters.text}}"}]
            artifacts: [{name: file, from: "{{tasks.make.outputs.artifacts.file}}"}]
        - {name: numbers, template: numbers}
        - name: each
          depends: numbers
          template: say
          withParam: "{{tasks.numbers.outputs.result}}"
          arguments: {parameters: [{name: what, value: "<{{item}}>"}]}
        - name: fixed
          template: say
          withItems: [a b, 2]
          arguments: {parameters: [{name: what, value: "{{item}} of {{workflow.parameters.n}}"}]}
        - name: small
          template: say
          when: "{{workflow.parameters.n}} < 2 && {{tasks.numbers.outputs.result}} != none"
          arguments: {parameters: [{name: what, value: small}]}
        - name: fail
          template: fail
          continueOn: {failed: true}
        - {name: after, depends: "fail.Failed || make", template: say,
           arguments: {parameters: [{name: what, value: after}]}}
        - {name: server, template: server}
    - name: make
      retryStrategy: {limit: 2, backoff: {duration: 5, maxDuration: 1m}}
      container:
        image: alpine
        command: [sh, -c]
        args: ["false; printf '{{workflow.parameters.who}}' >/tmp/out.txt;\n
          cp /tmp/out.txt /tmp/f.txt"]
      outputs:
        parameters: [{name: text, valueFrom: {path: /tmp/out.txt}}]
        artifacts: [{name: file, path: /tmp/f.txt}]
    - name: use
      inputs: {parameters: [{name: text}], artifacts: [{name: file, path: /in/f.txt}]}
      script:
        image: python
        command: [python3]
        source: |
          print("text: {{inputs.parameters.text}}")  # $not a variable
          print("file:", open("/in/f.txt").read())
    - name: numbers
      script: {image: python, command: [python3], source: "print([1, 2])"}
    - name: say
      inputs: {parameters: [{name: what}]}
      container: {image: busybox, command: [echo, "it is: {{inputs.parameters.what}}"]}
    - name: fail
      container: {command: [sh, -c, exit 3]}
    - name: bye
      container: {command: [echo, "ended {{workflow.status}}"]}
    - name: server
      daemon: true
      resource: {action: create}
"""


def logs():
    """What each task of the newest run printed."""
    out = {}
    for t in cairn.Project().get_run().tasks():
        if t.get("attempt"):
            out[t["task"]] = cli.text(["logs", t["task"]]).strip()
    return out


def test_argo(take):
    found = take("flow.yaml", ARGO)
    assert found["format"] == "argo" and found["pipeline"] == "nightly"
    said = {(n["line"], n["what"].split("`")[1]) for n in found["notes"]}
    assert (72, "server") in said and len(found["notes"]) <= 2, found["notes"]
    pipeline = yaml.safe_load(Path("pipeline.yaml").read_text())
    assert pipeline["schedules"]["schedule"] == {
        "cron": "0 3 * * *",
        "timezone": "Europe/Berlin",
        "overlap": "skip",
    }
    assert pipeline["steps"]["make"]["retry"] == {"max": 2, "backoff": "5s..1m"}
    cairn.run()
    said = logs()
    assert said["use"] == "text: it's $HOME\nfile: it's $HOME"
    assert sorted(v for k, v in said.items() if k.startswith("each")) == [
        "it is: <1>",
        "it is: <2>",
    ]
    assert sorted(v for k, v in said.items() if k.startswith("fixed")) == [
        "it is: 2 of 3",
        "it is: a b of 3",
    ]
    assert "small" not in said and said["after"] == "it is: after"
    assert said["bye"] == "ended succeeded"
    cairn.run(params={"n": "1", "who": "x"})
    assert logs()["small"] == "it is: small"


def test_argo_without_a_counterpart(take):
    found = take(
        "flow.yaml",
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {generateName: w-}\n"
        "spec:\n  entrypoint: a\n  templates:\n  - name: a\n    steps:\n"
        "    - - {name: b, template: c, when: '{{=1 == 1}}'}\n"
        "    - - {name: again, template: a}\n"
        "    - - {name: d, templateRef: {name: x, template: y}}\n"
        "  - name: c\n    container: {image: x, command: [echo, '{{pod.name}}']}\n",
    )
    assert [n["line"] for n in found["notes"]] == [9, 13, 7, 11]
    assert all(n["todo"] for n in found["notes"])


# Kubeflow

KUBEFLOW = """
pipelineInfo: {name: demo-ir}
root:
  inputDefinitions:
    parameters:
      word: {parameterType: STRING, defaultValue: 'a "b" $x'}
      n: {parameterType: NUMBER_INTEGER, defaultValue: 2.0}
  dag:
    tasks:
      make:
        componentRef: {name: comp-make}
        cachingOptions: {enableCache: true}
        inputs:
          parameters:
            word: {componentInputParameter: word}
            n: {componentInputParameter: n}
            text: {runtimeValue: {constant: "n is {{$.inputs.parameters['n']}}!"}}
      loop:
        componentRef: {name: comp-loop}
        parameterIterator: {itemInput: item, items: {raw: '["x", "y"]'}}
      check:
        componentRef: {name: comp-check}
        dependentTasks: [make]
        triggerPolicy: {condition: "int(inputs.parameter_values['count']) > 1"}
        inputs:
          parameters:
            count: {taskOutputParameter: {producerTask: make, outputParameterKey: count}}
          artifacts:
            data: {taskOutputArtifact: {producerTask: make, outputArtifactKey: data}}
      never:
        componentRef: {name: comp-say}
        triggerPolicy: {condition: "inputs.parameter_values['m'] == 'no'"}
        inputs:
          parameters:
            m: {taskOutputParameter: {producerTask: make, outputParameterKey: text}}
components:
  comp-make:
    executorLabel: exec-make
    inputDefinitions: {parameters: {word: {parameterType: STRING},
      n: {parameterType: NUMBER_INTEGER}, text: {parameterType: STRING}}}
    outputDefinitions:
      parameters: {count: {parameterType: NUMBER_INTEGER}, text: {parameterType: STRING}}
      artifacts: {data: {artifactType: {schemaTitle: system.Dataset, schemaVersion: 0.0.1}}}
  comp-loop:
    inputDefinitions: {parameters: {item: {parameterType: STRING}}}
    dag:
      tasks:
        first:
          componentRef: {name: comp-emit}
          inputs: {parameters: {m: {componentInputParameter: item}}}
        second:
          componentRef: {name: comp-say}
          inputs:
            parameters: {m: {taskOutputParameter: {producerTask: first, outputParameterKey: out}}}
  comp-check:
    executorLabel: exec-check
    inputDefinitions: {artifacts: {data: {}}, parameters: {count: {parameterType: NUMBER_INTEGER}}}
  comp-say: {executorLabel: exec-say, inputDefinitions: {parameters: {m: {parameterType: STRING}}}}
  comp-emit:
    executorLabel: exec-emit
    inputDefinitions: {parameters: {m: {parameterType: STRING}}}
    outputDefinitions: {parameters: {out: {parameterType: STRING}}}
deploymentSpec:
  executors:
    exec-make:
      container:
        image: python
        command: [python3, -c, "import json, os, sys\\nd = json.loads(sys.argv[1])\\n\\
          p = d['inputs']['parameterValues']\\no = d['outputs']\\n\\
          put = lambda k, v: open(o['parameters'][k]['outputFile'], 'w').write(v)\\n\\
          put('count', str(p['n'] * 2))\\nput('text', json.dumps(p))\\n\\
          open(o['artifacts']['data']['artifacts'][0]['uri'], 'w').write(p['word'])"]
        args: ["{{$}}"]
    exec-check:
      container: {image: alpine, command: [sh, -c, "cat {{$.inputs.artifacts['data'].path}}"]}
    exec-say: {container: {image: alpine, command: [echo, "m={{$.inputs.parameters['m']}}"]}}
    exec-emit:
      container:
        command: [sh, -c, 'printf "<%s>" "$0" >"$1"']
        args: ["{{$.inputs.parameters['m']}}", "{{$.outputs.parameters['out'].output_file}}"]
---
platforms: {kubernetes: {}}
"""


def test_kubeflow(take):
    found = take("demo.yaml", KUBEFLOW)
    assert found["format"] == "kubeflow" and [n["line"] for n in found["notes"]] == [82]
    cairn.run()
    said = logs()
    assert said["check"] == 'a "b" $x'
    assert said["loop-second[item=x]"] == "m=<x>" and said["loop-second[item=y]"] == "m=<y>"
    assert "never" not in said
    values = value("make/values")
    assert values["count"] == 4
    assert json.loads(values["text"]) == {"word": 'a "b" $x', "n": 2, "text": "n is 2!"}


# Snakemake

SNAKEFILE = """
SAMPLES = ["a", "b"]
rule all:
    input: "all.txt"
rule upper:
    input: "in/{s}.txt"
    output: temp("up/{s}.txt")
    log: "logs/{s}.log"
    resources: mem_mb=100
    shell: "tr a-z A-Z <{input} >{output} 2>{log}; echo '${{HOME}}' >>{output}"
rule join:
    input: expand("up/{s}.txt", s=SAMPLES)
    output: "all.txt"
    threads: 4
    run:
        with open(output[0], "w") as f:
            f.write("".join(open(i).readline() for i in input))
"""


def test_snakemake(project, tmp_path):
    pytest.importorskip("snakemake.api")
    project("")
    (tmp_path / "pipeline.yaml").unlink()
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "in").mkdir()
    for s in ("a", "b"):
        (tmp_path / "in" / f"{s}.txt").write_text(f"{s} {s}\n")
    found = take_file("Snakefile")
    assert found["format"] == "snakemake" and found["steps"] == 3
    assert {n["line"] for n in found["notes"]} == {11}, found["notes"]
    steps = yaml.safe_load(Path("pipeline.yaml").read_text())["steps"]
    assert list(steps) == ["upper-a", "upper-b", "join"]
    assert steps["upper-a"]["resources"] == {"memory": "100M"}
    assert steps["join"]["resources"] == {"cpu": 4}
    assert steps["upper-a"]["outputs"]["a_txt"] == {"path": "up/a.txt", "temp": True}
    cairn.run(options=["-j", "4"])
    assert value("join/all_txt") == "A A\nB B\n"


def test_a_snakefile_without_snakemake(project, tmp_path):
    try:
        import snakemake.api  # noqa: F401

        pytest.skip("it is here")
    except ImportError:
        pass
    project("")
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    out = subprocess.run(
        [sys.executable, "-m", "cairn.importer", "Snakefile", "-o", "x.yaml"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )
    assert out.returncode == 2 and "-m pip install snakemake" in out.stderr


# parts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "true",
        "No",
        "1",
        "1e3",
        ".5",
        "a: b",
        "- a",
        "# x",
        "a #b",
        "${{ x }}",
        "é",
        '"',
        "'",
        "*x",
        "&x",
        "!x",
        "%x",
        "@x",
        "`",
        "a, b",
        "[x]",
        "{x}",
        "~",
        "null",
        " a",
        "a ",
        "./x",
        ".nan",
        "0x1",
        "2020-01-01",
        "a\nb",
        "a\tb",
        "x\n",
        "=",
        "<<",
        "?",
        "|",
    ],
)
def test_a_scalar_is_read_as_it_was(text):
    p = Pipeline("p", "test")
    p.steps["s"] = {"run": text, "env": {"A": text}, "code": [text, text]}
    found = yaml.safe_load(p.text())
    assert found["steps"]["s"] == {"run": text, "env": {"A": text}, "code": [text, text]}
    assert yaml.safe_load(f"[{scalar(text)}, x]") == [text, "x"]


def test_names_are_those_that_the_file_takes():
    names = Names()
    assert [names.new(n) for n in ("A b", "a_b", "a-b", "1", "", "x" * 60, "é")] == [
        "a-b",
        "a_b",
        "a-b-2",
        "s-1",
        "step",
        "x" * 36,
        "step-2",
    ]
    assert (
        ident("data/Raw é.csv") == "data_raw_csv"
        and ident("9") == "f_9"
        and ident("a", ["a"]) == "a_2"
    )


def test_single_quotes_of_a_shell():
    for text, inside in (
        ("a 'b", True),
        ("a 'b' \"it's", False),
        ("\\'", False),
        ('"\'"', False),
        ("# it's\n'", True),
    ):
        quotes = Quotes()
        quotes.read(text)
        assert quotes.single is inside, text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("heads", "heads"),
        ("12", 12),
        ("0", 0),
        ("007", "007"),
        ("[1, 2]", [1, 2]),
        ("true", True),
        ('a "q"\\ \t\nb', 'a "q"\\ \t\nb'),
        ("", ""),
        ("-1", "-1"),
        ('{"a": 1}', {"a": 1}),
    ],
)
def test_a_file_becomes_a_value(tmp_path, text, wanted):
    (tmp_path / "f").write_text(text)
    script = write_values({"a": "f", "t": "f"}, ["t"])
    subprocess.run(["sh", "-ec", script], cwd=tmp_path, check=True)
    assert json.loads((tmp_path / "values.json").read_text()) == {"a": wanted, "t": text}


def test_what_is_no_pipeline(tmp_path, capsys, monkeypatch):
    from cairn.importer.__main__ import main

    monkeypatch.chdir(tmp_path)
    for text, said in (
        ("a: [", "x.yaml:1: this isn't YAML"),
        ("just text", "is no dvc.yaml, workflow of Argo"),
        ("stages: 3", "has no `stages`"),
        ("apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec: {}", "has no templates"),
        ("pipelineInfo: {}", "no compiled pipeline of Kubeflow"),
    ):
        Path("x.yaml").write_text(text)
        assert main(["x.yaml", "-o", "out.yaml"]) == 2
        assert said in capsys.readouterr().err and not Path("out.yaml").exists()
    Path("out.yaml").write_text("mine")
    assert main(["x.yaml", "-o", "out.yaml"]) == 2 and Path("out.yaml").read_text() == "mine"
    assert main(["nothere"]) == 2
    assert main(["nothere", "--json"]) == 2
    assert json.loads(capsys.readouterr().err.splitlines()[-1])["schema"] == "cairn.error/1"
