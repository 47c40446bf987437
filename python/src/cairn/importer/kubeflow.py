"""A compiled pipeline of Kubeflow (its IR, the YAML that `kfp` writes) → a pipeline.

Components that are graphs are laid flat; each container becomes a step. Its program gets what
Kubeflow's launcher would give it: the executor input as JSON, written from our values when the
step runs. An output artifact is `data` in a directory of its own, since nothing says whether it
is a file.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple, Union

from .model import ImportFailed, Names, Pipeline, Quotes, ident, in_heredoc, literal, write_values
from .yamlfile import Map, documents

TYPES = {
    "STRING": "string",
    "NUMBER_INTEGER": "int",
    "NUMBER_DOUBLE": "float",
    "BOOLEAN": "bool",
    "LIST": "list",
}


class Const(NamedTuple):
    value: Any


class Expr(NamedTuple):
    text: str


Value = Union[Const, Expr]


class Outcome:
    """What a task became: its last steps, and its outputs."""

    def __init__(self) -> None:
        self.steps: List[str] = []
        self.parameters: Dict[str, Value] = {}
        self.artifacts: Dict[str, str] = {}  # references to outputs


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _as_expr(v: Value) -> str:
    if isinstance(v, Expr):
        return v.text
    if isinstance(v.value, str):
        return _quoted(v.value)
    if isinstance(v.value, (list, dict)):
        return _quoted(json.dumps(v.value))
    return json.dumps(v.value)


def _line(node: Any, key: Optional[str] = None) -> Optional[int]:
    return (node.at(key) if key else node.line) if isinstance(node, Map) else None


class Importer:
    def __init__(self, path: str) -> None:
        docs = [d for d in documents(path) if isinstance(d, dict)]
        ir = next((d for d in docs if "root" in d and "deploymentSpec" in d), None)
        if ir is None:
            raise ImportFailed(
                f"{path} is no compiled pipeline of Kubeflow",
                "`kfp dsl compile` writes one; pipelines of version 1 are workflows of Argo",
            )
        self.ir = ir
        self.p = Pipeline(str((ir.get("pipelineInfo") or {}).get("name", "pipeline")), path)
        self.p.description = (ir.get("pipelineInfo") or {}).get("description")
        self.components: Dict[str, Any] = ir.get("components") or {}
        self.executors: Dict[str, Any] = (ir["deploymentSpec"] or {}).get("executors") or {}
        self.names = Names()
        self.stack: List[str] = []
        self.axes = 0
        for d in docs:
            if "platforms" in d:
                self.p.note(
                    _line(d, "platforms"),
                    "settings of Kubernetes",
                    "`secrets`, `volumes`, "
                    "`kubernetes` and `resources` of the steps say such things",
                )

    # values

    def _text(self, text: str, given: Dict[str, Value], line: Optional[int]) -> Value:
        """A text with `{{$.inputs.parameters['x']}}` in it."""
        parts: List[Value] = []
        at = 0
        for m in re.finditer(r"\{\{\$\.inputs\.parameters\[['\"]([^'\"]+)['\"]\]\}\}", text):
            parts += [Const(text[at : m.start()])] if m.start() > at else []
            parts.append(given.get(m.group(1), Const("")))
            at = m.end()
        parts += [Const(text[at:])] if at < len(text) or not parts else []
        if re.search(r"\{\{\$\.(pipeline|outputs)", text):
            self.p.note(line, f"`{text[:60]}` names facts of the run", "they stand there as text")
        if len(parts) == 1:
            return parts[0]
        if all(isinstance(v, Const) for v in parts):
            return Const("".join(str(v.value) for v in parts if isinstance(v, Const)))
        return Expr(f"join([{', '.join(map(_as_expr, parts))}], '')")

    def _select(self, v: Value, how: str, line: Optional[int]) -> Value:
        m = re.fullmatch(r"parseJson\(string_value\)((?:\[[^\]]+\])+)", how)
        if not m:
            self.p.note(line, f"the selector `{how}`", "the whole value is given")
            return v
        for key in re.findall(r"\[\"?([^\]\"]+)\"?\]", m.group(1)):
            if isinstance(v, Expr):
                v = Expr(f"{v.text}.{key}")
            else:
                value = json.loads(v.value) if isinstance(v.value, str) else v.value
                v = Const(value[int(key)] if isinstance(value, list) else value.get(key))
        return v

    def _inputs(
        self,
        task: Map,
        given: Dict[str, Value],
        artifacts: Dict[str, str],
        done: Dict[str, Outcome],
    ) -> Tuple[Dict[str, Value], Dict[str, str]]:
        out: Dict[str, Value] = {}
        inputs = task.get("inputs") or {}
        for name, source in (inputs.get("parameters") or {}).items():
            line = _line(source)
            value: Value = Const(None)
            if "componentInputParameter" in source:
                value = given.get(source["componentInputParameter"], Const(None))
            elif "runtimeValue" in source:
                constant = source["runtimeValue"].get("constant")
                value = (
                    self._text(constant, given, line)
                    if isinstance(constant, str)
                    else Const(constant)
                )
            elif "taskOutputParameter" in source:
                ref = source["taskOutputParameter"]
                made = done.get(ref["producerTask"])
                key = ref["outputParameterKey"]
                if made and key in made.parameters:
                    value = made.parameters[key]
                else:
                    self.p.note(line, f"`{key}` of `{ref['producerTask']}`", "it has no value here")
            elif "taskFinalStatus" in source:
                self.p.note(
                    line,
                    "the final status of a task",
                    "${{ run.state }} and ${{ join(failed.tasks, ' ') }} say it in `finally`",
                )
            if "parameterExpressionSelector" in source:
                value = self._select(value, source["parameterExpressionSelector"], line)
            out[name] = value
        found: Dict[str, str] = {}
        for name, source in (inputs.get("artifacts") or {}).items():
            if "componentInputArtifact" in source:
                if source["componentInputArtifact"] in artifacts:
                    found[name] = artifacts[source["componentInputArtifact"]]
            elif "taskOutputArtifact" in source:
                ref = source["taskOutputArtifact"]
                made = done.get(ref["producerTask"])
                if made and ref["outputArtifactKey"] in made.artifacts:
                    found[name] = made.artifacts[ref["outputArtifactKey"]]
                else:
                    self.p.note(
                        _line(source),
                        f"artifact `{ref['outputArtifactKey']}` of `{ref['producerTask']}`",
                        "give the step an input for it",
                    )
        return out, found

    def _condition(self, text: str, given: Dict[str, Value], line: Optional[int]) -> Optional[str]:
        text = re.sub(
            r"\b(?:int|double|string|bool)\((inputs\.parameter_values\[[^\]]+\])\)", r"\1", text
        )
        text = re.sub(
            r"inputs\.parameter_values\[['\"]([^'\"]+)['\"]\]",
            lambda m: _as_expr(given.get(m.group(1), Const(None))),
            text,
        )
        if re.search(r"\b(inputs|parseJson|string_value)\b", text):
            self.p.note(line, f"the condition `{text}`", 'write it as `if: "${{ … }}"`')
            return None
        return text.replace("\\'", "''")

    # graphs

    def _graph(
        self,
        dag: Map,
        prefix: str,
        given: Dict[str, Value],
        artifacts: Dict[str, str],
        common: Dict[str, Any],
    ) -> Outcome:
        tasks: Dict[str, Map] = dag.get("tasks") or {}
        done: Dict[str, Outcome] = {}
        used: Set[str] = set()

        def visit(name: str) -> None:
            if name in done or name not in tasks:
                return
            task = tasks[name]
            before = [*(task.get("dependentTasks") or [])]
            before += re.findall(r'"producerTask": "([^"]+)"', json.dumps(task.get("inputs") or {}))
            done[name] = Outcome()
            for other in before:
                visit(other)
            used.update(before)
            done[name] = self._task(name, task, prefix, given, artifacts, common, done)

        for name in tasks:
            visit(name)
        out = Outcome()
        out.steps = [s for n in tasks if n not in used for s in done[n].steps]
        said = dag.get("outputs") or {}
        for name, source in (said.get("parameters") or {}).items():
            ref = source.get("valueFromParameter")
            made = done.get(ref["producerSubtask"]) if ref else None
            if made and ref["outputParameterKey"] in made.parameters:
                out.parameters[name] = made.parameters[ref["outputParameterKey"]]
            else:
                self.p.note(
                    _line(source),
                    f"output `{name}`, of one of several branches",
                    "write it where it is used, for example by choose()",
                )
        for name, source in (said.get("artifacts") or {}).items():
            refs = source.get("artifactSelectors") or []
            made = done.get(refs[0]["producerSubtask"]) if len(refs) == 1 else None
            if made and refs[0]["outputArtifactKey"] in made.artifacts:
                out.artifacts[name] = made.artifacts[refs[0]["outputArtifactKey"]]
            else:
                self.p.note(
                    _line(source),
                    f"artifact `{name}`, of one of several branches",
                    "give the step that reads it an input for each",
                )
        return out

    def _task(
        self,
        name: str,
        task: Map,
        prefix: str,
        given: Dict[str, Value],
        artifacts: Dict[str, str],
        common: Dict[str, Any],
        done: Dict[str, Outcome],
    ) -> Outcome:
        component = self.components.get(task["componentRef"]["name"])
        if component is None:
            self.p.note(_line(task), f"task `{name}` has no component", "not imported")
            return Outcome()
        parameters, found = self._inputs(task, given, artifacts, done)
        step = dict(common)
        step["needs"] = [
            *common.get("needs", []),
            *(s for t in task.get("dependentTasks") or [] for s in done[t].steps),
        ]
        policy = task.get("triggerPolicy") or {}
        conditions = [c for c in (common.get("if"),) if c]
        if "condition" in policy:
            asked = self._condition(policy["condition"], parameters, _line(policy, "condition"))
            conditions += [asked] if asked else []
        if policy.get("strategy") == "ALL_UPSTREAM_TASKS_COMPLETED":
            conditions.append("always()")
        if conditions:
            step["if"] = (
                " && ".join(f"({c})" for c in conditions)
                if len(conditions) > 1
                else (conditions[0])
            )
        retry = task.get("retryPolicy")
        if retry and int(retry.get("maxRetryCount", 0)):
            step["retry"] = {"max": int(retry["maxRetryCount"])}
        step["cache"] = (
            None
            if (task.get("cachingOptions") or {}).get("enableCache") or ("dag" in component)
            else False
        )
        label = f"{prefix}{name}"
        iterator = task.get("parameterIterator")
        if "artifactIterator" in task:
            self.p.note(
                _line(task, "artifactIterator"),
                f"`{name}` loops over artifacts",
                '`each: "${{ steps.X.outputs.Y }}/*"` does',
            )
        if iterator:
            return self._loop(label, component, iterator, parameters, found, step)
        return self._call(label, component, parameters, found, step)

    def _call(
        self,
        label: str,
        component: Map,
        parameters: Dict[str, Value],
        artifacts: Dict[str, str],
        step: Dict[str, Any],
    ) -> Outcome:
        declared = (component.get("inputDefinitions") or {}).get("parameters") or {}
        for name, d in declared.items():
            value = parameters.get(name)
            if value is None or (isinstance(value, Const) and value.value is None):
                parameters[name] = Const(d.get("defaultValue"))
        if "dag" in component:
            return self._graph(
                component["dag"],
                f"{label}-"
                if not label.startswith(("condition", "for-loop", "exit-handler"))
                else "",
                parameters,
                artifacts,
                step,
            )
        return self._step(label, component, parameters, artifacts, step)

    def _loop(
        self,
        label: str,
        component: Map,
        iterator: Map,
        parameters: Dict[str, Value],
        artifacts: Dict[str, str],
        step: Dict[str, Any],
    ) -> Outcome:
        item = iterator["itemInput"]
        given = iterator["items"]
        line = _line(iterator)
        items: Any = None
        if "raw" in given:
            items = json.loads(given["raw"])
        else:
            value = parameters.get(given["inputParameter"], Const(None))
            if isinstance(value, Expr) and not value.text.startswith("params."):
                inner = (component.get("dag") or {}).get("tasks") or {}
                if any("taskOutput" in json.dumps(t.get("inputs") or {}) for t in inner.values()):
                    self.p.note(
                        line,
                        f"`{label}` loops over what a step made, and its steps hand on "
                        "what they make",
                        "put them into one step with `each`",
                    )
                    return Outcome()
                if "matrix" in step or "each" in step:
                    self.p.note(
                        line,
                        f"`{label}` loops over what a step made, in another loop",
                        "let that step make all the items",
                    )
                    return Outcome()
                step["each"] = f"${{{{ {value.text} }}}}"
                parameters[item] = Expr("item")
                return self._call(label, component, parameters, artifacts, step)
            items = value.value if isinstance(value, Const) else value
            if isinstance(items, str):
                items = json.loads(items)
        self.axes += 1
        axis = "item" if self.axes == 1 else f"item{self.axes}"
        if isinstance(items, Expr):
            matrix: Any = f"${{{{ {items.text} }}}}"
        elif items and all(isinstance(i, (str, int, float, bool)) for i in items):
            matrix = list(dict.fromkeys(items))
        else:
            out = Outcome()
            for i, value in enumerate(items or []):
                one = self._call(
                    f"{label}-{i + 1}",
                    component,
                    {**parameters, item: Const(value)},
                    artifacts,
                    dict(step),
                )
                out.steps += one.steps
            return out
        step["matrix"] = {**(step.get("matrix") or {}), axis: matrix}
        parameters[item] = Expr(f"matrix.{axis}")
        return self._call(label, component, parameters, artifacts, step)

    # steps

    def _step(
        self,
        label: str,
        component: Map,
        parameters: Dict[str, Value],
        artifacts: Dict[str, str],
        step: Dict[str, Any],
    ) -> Outcome:
        executor = self.executors.get(component.get("executorLabel", ""), {})
        out = Outcome()
        if "importer" in executor:
            return self._importer(label, executor["importer"], parameters, component)
        container = executor.get("container")
        if container is None:
            kind = next(iter(executor), "nothing")
            self.p.note(_line(component), f"`{label}` is {kind}", "not imported")
            return out
        name = self.names.new(label)
        out.steps = [name]
        definitions = component.get("outputDefinitions") or {}
        inputs: Dict[str, str] = {}
        paths: Dict[str, str] = {}
        for artifact, source in artifacts.items():
            of = ident(artifact, inputs)
            inputs[of] = source
            paths[artifact] = f"${{{{ inputs.{of} }}}}" + (
                "" if source.startswith("${{ inputs") else "/data"
            )
        outputs: Dict[str, str] = {}
        made: Dict[str, str] = {}
        for artifact in definitions.get("artifacts") or {}:
            of = ident(artifact, outputs)
            outputs[of] = f"artifacts/{of}/"
            made[artifact] = f"${{{{ outputs.{of} }}}}/data"
            out.artifacts[artifact] = f"${{{{ steps.{name}.outputs.{of} }}}}"
        values: Dict[str, str] = {}
        texts: List[str] = []
        for parameter, d in (definitions.get("parameters") or {}).items():
            key = ident(parameter, values)
            values[key] = f"parameters/{parameter}"
            if d.get("parameterType") == "STRING":
                texts.append(key)
            out.parameters[parameter] = Expr(f"steps.{name}.values.{key}")
        words = [*(container.get("command") or []), *(container.get("args") or [])]
        lines = ["mkdir -p parameters"] if values else []
        if any("{{$}}" in str(w) for w in words):
            text = self._executor_input(component, parameters, paths, made)
            lines.append(f"cat >executor_input.json <<INPUT\n{text}\nINPUT")
        lines.append(self._command(words, component, parameters, paths, made, _line(container)))
        if values:
            lines.append(write_values(values, texts))
        env = {e["name"]: literal(str(e.get("value", ""))) for e in container.get("env") or []}
        step.update(
            image=container.get("image"),
            run="\n".join(lines),
            inputs=inputs,
            outputs=outputs,
            values="values.json" if values else None,
            env=env,
            resources=self._resources(container.get("resources") or {}),
        )
        if step.get("if"):
            step["if"] = f"${{{{ {step['if']} }}}}"
        into = self.p.steps
        step["needs"] = [n for n in dict.fromkeys(step.get("needs") or []) if n in into]
        order = (
            "needs",
            "if",
            "matrix",
            "each",
            "image",
            "run",
            "inputs",
            "outputs",
            "values",
            "env",
            "resources",
            "retry",
            "cache",
        )
        into[name] = {k: step[k] for k in order if step.get(k) or step.get(k) is False}
        return out

    def _executor_input(
        self,
        component: Map,
        parameters: Dict[str, Value],
        paths: Dict[str, str],
        made: Dict[str, str],
    ) -> str:
        """What Kubeflow's launcher writes for Python components (its executor_input.proto)."""
        declared = component.get("inputDefinitions") or {}
        outputs = component.get("outputDefinitions") or {}

        def artifact(name: str, path: str, of: Any) -> str:
            kind = (of.get("artifactType") or {}) if isinstance(of, dict) else {}
            said = {
                "name": name,
                "type": dict(kind) or {"schemaTitle": "system.Artifact", "schemaVersion": "0.0.1"},
                "metadata": {},
            }
            text = in_heredoc(json.dumps(said))[:-1]
            return f'{json.dumps(name)}: {{"artifacts": [{text}, "uri": "{path}"}}]}}'

        given = []
        for name in declared.get("parameters") or {}:
            v = parameters.get(name, Const(None))
            if isinstance(v, Const) and v.value is None:
                continue
            text = (
                f"${{{{ json({v.text}) }}}}"
                if isinstance(v, Expr)
                else in_heredoc(literal(json.dumps(v.value)))
            )
            given.append(f"{json.dumps(name)}: {text}")
        ins = [artifact(n, p, (declared.get("artifacts") or {}).get(n)) for n, p in paths.items()]
        outs = [artifact(n, p, (outputs.get("artifacts") or {}).get(n)) for n, p in made.items()]
        files = [
            f'{json.dumps(n)}: {{"outputFile": "parameters/{n}"}}'
            for n in outputs.get("parameters") or {}
        ]
        return (
            '{"inputs": {"parameterValues": {' + ",\n  ".join(given) + "},\n"
            ' "artifacts": {' + ",\n  ".join(ins) + "}},\n"
            '"outputs": {"parameters": {' + ", ".join(files) + "},\n"
            ' "artifacts": {' + ",\n  ".join(outs) + "},\n"
            ' "outputFile": "executor_output.json"}}'
        )

    def _command(
        self,
        words: List[Any],
        component: Map,
        parameters: Dict[str, Value],
        paths: Dict[str, str],
        made: Dict[str, str],
        line: Optional[int],
    ) -> str:
        if not words:
            self.p.note(line, "a container that runs its image's own command", "write the command")
            return "echo it was not imported"
        shell = str(words[0]).rpartition("/")[2] in ("sh", "bash")
        if shell and len(words) == 3 and words[1] in ("-c", "-ec", "-exc"):
            return self._script(str(words[2]), parameters, paths, made, line)
        out: List[str] = []
        for word in words:
            for text in self._placeholder(str(word), parameters):
                out.append(self._word(text, parameters, paths, made, line))
        return " ".join(out)

    def _placeholder(self, word: str, parameters: Dict[str, Value]) -> List[str]:
        """`{"IfPresent": …}` and `{"Concat": […]}`."""
        if not word.startswith(('{"IfPresent"', '{"Concat"')):
            return [word]
        try:
            tree = json.loads(word)
        except ValueError:
            return [word]

        def read(node: Any) -> List[str]:
            if isinstance(node, str):
                return [node]
            if isinstance(node, list):
                return [t for n in node for t in read(n)]
            if "Concat" in node:
                return ["".join(t for n in node["Concat"] for t in read(n))]
            if "IfPresent" in node:
                spec = node["IfPresent"]
                v = parameters.get(spec["InputName"], Const(None))
                there = not isinstance(v, Const) or v.value is not None
                return read(spec["Then"] if there else spec.get("Else", []))
            return [json.dumps(node)]

        return read(tree)

    def _word(
        self,
        text: str,
        parameters: Dict[str, Value],
        paths: Dict[str, str],
        made: Dict[str, str],
        line: Optional[int],
    ) -> str:
        if text == "{{$}}":
            return '"$(cat executor_input.json)"'
        text, found = self._tokens(text, parameters, paths, made, line)
        if not found:
            return literal(shlex.quote(text))
        text = literal(re.sub(r'(["\\$`])', r"\\\1", text))
        for t, value in found.items():
            text = text.replace(t, value)
        return f'"{text}"'

    def _script(
        self,
        text: str,
        parameters: Dict[str, Value],
        paths: Dict[str, str],
        made: Dict[str, str],
        line: Optional[int],
    ) -> str:
        """A shell's script, with values where they can stand."""
        text, found = self._tokens(text, parameters, paths, made, line)
        quotes = Quotes()
        out: List[str] = []
        for part in re.split("(\0[0-9]+\1)", literal(text)):
            if part in found:
                out.append(f"'\"{found[part]}\"'" if quotes.single else found[part])
            else:
                quotes.read(part)
                out.append(part)
        return "".join(out).strip("\n")

    def _tokens(
        self,
        text: str,
        parameters: Dict[str, Value],
        paths: Dict[str, str],
        made: Dict[str, str],
        line: Optional[int],
    ) -> Tuple[str, Dict[str, str]]:
        """The text with a token for each value and path, and what the tokens mean."""
        found: Dict[str, str] = {}

        def token(value: str) -> str:
            found[f"\0{len(found)}\1"] = value
            return list(found)[-1]

        def parameter(m: re.Match[str]) -> str:
            v = parameters.get(m.group(1), Const(""))
            if isinstance(v, Expr):
                return token(f"${{{{ {v.text} }}}}")
            return v.value if isinstance(v.value, str) else json.dumps(v.value)

        quote = r"\[['\"]([^'\"]+)['\"]\]"
        text = re.sub(rf"\{{\{{\$\.inputs\.parameters{quote}\}}\}}", parameter, text)
        text = re.sub(
            rf"\{{\{{\$\.outputs\.parameters{quote}\.output_file\}}\}}",
            lambda m: token(f"parameters/{m.group(1)}"),
            text,
        )
        for of, where in (("inputs", paths), ("outputs", made)):
            text = re.sub(
                rf"\{{\{{\$\.{of}\.artifacts{quote}\.(?:path|uri)\}}\}}",
                lambda m, where=where: token(  # type: ignore[misc]
                    where.get(m.group(1), "missing")
                ),
                text,
            )
        if "{{$" in text:
            self.p.note(line, f"the placeholder `{text[:60]}`", "it stands there as text")
        return text, found

    def _importer(
        self, label: str, spec: Map, parameters: Dict[str, Value], component: Map
    ) -> Outcome:
        out = Outcome()
        source = spec.get("artifactUri") or {}
        uri = source.get("constant")
        if uri is None and "runtimeParameter" in source:
            v = parameters.get(source["runtimeParameter"])
            if isinstance(v, Const):
                uri = v.value
            elif v is not None and v.text.startswith("params."):
                uri = self.p.params.get(v.text[7:])
                self.p.note(
                    _line(source),
                    f"the place of `{label}` is a parameter",
                    "an input of the pipeline has a fixed place: its default",
                )
        if not isinstance(uri, str) or not uri.startswith(("https://", "s3://", "gs://")):
            self.p.note(_line(spec), f"`{label}` imports {uri}", "name it in `inputs`")
            return out
        name = ident(label, self.p.inputs)
        self.p.inputs[name] = uri
        for artifact in (component.get("outputDefinitions") or {}).get("artifacts") or {}:
            out.artifacts[artifact] = f"${{{{ inputs.{name} }}}}"
        return out

    def _resources(self, given: Dict[str, Any]) -> Dict[str, Any]:
        out: Dict[str, Any] = {}
        cpu = (
            given.get("resourceCpuRequest")
            or given.get("resourceCpuLimit")
            or given.get("cpuLimit")
        )
        memory = given.get("resourceMemoryRequest") or given.get("resourceMemoryLimit")
        if cpu and "{{" not in str(cpu):
            out["cpu"] = cpu
        if memory and "{{" not in str(memory):
            out["memory"] = memory
        elif given.get("memoryLimit"):
            out["memory"] = str(int(float(given["memoryLimit"]) * 10**9))
        accelerator = given.get("accelerator") or {}
        count = str(accelerator.get("resourceCount") or accelerator.get("count") or "")
        if count.isdigit():
            out["gpu"] = int(count)
        return out

    # the whole

    def convert(self) -> Pipeline:
        root = self.ir["root"]
        given: Dict[str, Value] = {}
        declared = (root.get("inputDefinitions") or {}).get("parameters") or {}
        for name, d in declared.items():
            kind = TYPES.get(d.get("parameterType"))
            default = d.get("defaultValue")
            flat = not isinstance(default, dict) and not (
                isinstance(default, list)
                and not all(isinstance(i, (str, int, float, bool)) for i in default)
            )
            ours = re.sub(r"[^A-Za-z0-9_-]", "_", name)
            if kind is None or not flat:
                self.p.note(
                    _line(d),
                    f"parameter `{name}` is a structure",
                    "a constant here: params are texts, numbers or lists of them",
                )
                given[name] = Const(default)
                continue
            if default is None and d.get("isOptional"):
                given[name] = Const(None)
                continue
            if kind == "int" and isinstance(default, float):
                default = int(default)
            said: Dict[str, Any] = {"type": kind}
            if default is not None:
                said["default"] = default
            if d.get("description"):
                said["help"] = d["description"]
            self.p.params[ours] = said
            given[name] = Expr(f"params.{ours}")
        artifacts: Dict[str, str] = {}
        for name in (root.get("inputDefinitions") or {}).get("artifacts") or {}:
            of = ident(name, self.p.inputs)
            self.p.inputs[of] = f"{of}/"
            artifacts[name] = f"${{{{ inputs.{of} }}}}"
            self.p.note(_line(root), f"artifact `{name}` of the pipeline", f"it is {of}/ here")
        self._graph(root["dag"], "", given, artifacts, {})
        self._unused()
        if not self.p.steps:
            raise ImportFailed(f"{self.p.source}: nothing of it could be imported")
        return self.p

    def _unused(self) -> None:
        """`always()` reads the ends of what the step waits for."""
        for step in self.p.steps.values():
            if step.get("if") == "${{ always() }}" and not step.get("needs"):
                del step["if"]


def convert(path: str) -> Pipeline:
    return Importer(path).convert()
