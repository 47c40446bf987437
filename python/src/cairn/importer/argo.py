"""A workflow of Argo → a pipeline.

Templates are laid flat: each call of a container or script becomes a step, with its arguments put
in. `{{…}}` of workflow parameters become params of the pipeline, results and output parameters of
other steps their `values`, artifacts outputs and inputs. A loop over constants is a `matrix`, one
over what a step made an `each`.

A step's program runs in a workspace of its own, so absolute paths of artifacts and parameters
become relative ones wherever the command names them.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple, Union

from .model import (
    ImportFailed,
    Names,
    Pipeline,
    Quotes,
    ident,
    in_heredoc,
    literal,
    write_values,
)
from .yamlfile import Map, documents

DEPTH_MAX = 16


class Ref(NamedTuple):
    """An expression of ours, in a text."""

    expr: str


Text = List[Union[str, Ref]]


class End(NamedTuple):
    """What a call became."""

    steps: List[str]  # those that end it
    all: List[str]
    parameters: Dict[str, Text]  # and "result"
    artifacts: Dict[str, str]  # references to outputs


class Scope:
    """What `{{…}}` means in a template."""

    def __init__(self, parameters: Dict[str, Text], artifacts: Dict[str, Any]) -> None:
        self.parameters, self.artifacts = parameters, artifacts
        self.ends: Dict[str, End] = {}  # of its tasks
        self.item: Dict[str, Text] = {}


def _line(node: Any, key: Optional[str] = None) -> Optional[int]:
    if isinstance(node, Map):
        return node.at(key) if key else node.line
    return None


def _constant(text: Text) -> Optional[str]:
    return (
        "".join(t for t in text if isinstance(t, str))
        if all(isinstance(t, str) for t in text)
        else None
    )


def _list(value: Any) -> List[Any]:
    return value if isinstance(value, list) else []


class Importer:
    def __init__(self, path: str) -> None:
        docs = [d for d in documents(path) if isinstance(d, Map) and "kind" in d]
        flows = [
            d
            for d in docs
            if d["kind"]
            in ("Workflow", "CronWorkflow", "WorkflowTemplate", "ClusterWorkflowTemplate")
        ]
        if not flows:
            raise ImportFailed(f"{path} has no workflow of Argo")
        first = next((d for d in flows if d["kind"] in ("Workflow", "CronWorkflow")), flows[0])
        self.doc, self.kind = first, first["kind"]
        spec = first.get("spec") or Map(1)
        self.spec: Map = spec.get("workflowSpec", spec) if self.kind == "CronWorkflow" else spec
        meta = first.get("metadata") or {}
        self.p = Pipeline(str(meta.get("name") or meta.get("generateName", "workflow")), path)
        self.templates: Dict[str, Map] = {}
        self.others: Dict[str, Map] = {}
        for d in flows:
            own = d.get("spec") or {}
            for t in _list(own.get("workflowSpec", own).get("templates")):
                if d is first:
                    self.templates[t["name"]] = t
                self.others[f"{(d.get('metadata') or {}).get('name')}/{t['name']}"] = t
        if len([d for d in flows if d["kind"] in ("Workflow", "CronWorkflow")]) > 1:
            self.p.note(None, "the file has several workflows", "only the first one is imported")
        self.names = Names()
        self.params: Dict[str, Any] = {}
        self.wanted: Dict[str, Dict[str, str]] = {}  # step → value → file that holds it
        self.finally_ = False
        self.asking = False  # in a condition, where states of steps are known
        self.stack: List[str] = []
        self.around: Dict[str, Tuple[List[str], Dict[str, str]]] = {}

    # texts

    def _text(self, raw: Any, scope: Scope, line: Optional[int]) -> Text:
        if isinstance(raw, bool):
            raw = "true" if raw else "false"
        elif isinstance(raw, (dict, list)):
            raw = json.dumps(raw)
        out: Text = []
        at = 0
        raw = str(raw)
        for m in re.finditer(r"\{\{\s*(=?)(.*?)\}\}", raw, re.S):
            out.append(raw[at : m.start()])
            at = m.end()
            if m.group(1):
                simple = re.fullmatch(
                    r"\s*([\w.-]+|inputs\.parameters\[['\"]([\w-]+)['\"]\])\s*", m.group(2)
                )
                if not simple:
                    self.p.note(
                        line,
                        f"the expression `{{{{={m.group(2).strip()}}}}}`",
                        "it stands in the step as it is: write it as ${{ … }} "
                        "(cairn help expressions)",
                    )
                    out.append(f"[[{m.group(2).strip()}]]")
                    continue
                name = (
                    f"inputs.parameters.{simple.group(2)}" if simple.group(2) else simple.group(1)
                )
            else:
                name = m.group(2).strip()
            out += self._value(name, scope, line)
        out.append(raw[at:])
        joined: Text = []
        for part in out:
            if isinstance(part, str) and joined and isinstance(joined[-1], str):
                joined[-1] += part
            elif part != "":
                joined.append(part)
        return joined

    def _value(self, name: str, scope: Scope, line: Optional[int]) -> Text:
        parts = name.split(".")
        if parts[:2] == ["workflow", "parameters"] and len(parts) == 3:
            return self._param(parts[2], line)
        if parts[:2] == ["inputs", "parameters"] and len(parts) == 3:
            if parts[2] in scope.parameters:
                return scope.parameters[parts[2]]
        if parts[0] == "item":
            found = scope.item.get(".".join(parts[1:]))
            if found is not None:
                return found
        if parts[0] in ("tasks", "steps") and len(parts) >= 4 and parts[2] == "outputs":
            end = scope.ends.get(parts[1])
            key = "result" if parts[3] == "result" else parts[-1]
            if end is not None and parts[3] != "artifacts":
                if key in end.parameters:
                    return end.parameters[key]
                if key == "result" and len(end.all) == 1:
                    return self._result(end.all[0])
        if parts[0] in ("tasks", "steps") and len(parts) == 3 and parts[2] == "status":
            end = scope.ends.get(parts[1])
            if end is not None and len(end.steps) == 1 and (self.asking or self.finally_):
                return [Ref(f"steps.{end.steps[0]}.state")]
        if name == "workflow.status" and self.finally_:
            return [Ref("run.state")]
        if name == "workflow.failures" and self.finally_:
            return [Ref("join(failed.tasks, ' ')")]
        if name.startswith("workflow.scheduledTime") and self.p.schedules:
            return [Ref("schedule.time")]
        if name.startswith("inputs.artifacts.") or name.startswith("outputs."):
            return [f"{{{{{name}}}}}"]  # a path: see _paths()
        known = {"workflow.name": self.p.name, "workflow.namespace": "default"}
        if name in known:
            self.p.note(
                line,
                f"`{{{{{name}}}}}`",
                f"a constant here, `{known[name]}`: facts of a run would make each run another one",
            )
            return [known[name]]
        self.p.note(line, f"`{{{{{name}}}}}` has no counterpart", "it stands in the step as text")
        return [f"[[{name}]]"]

    def _param(self, name: str, line: Optional[int]) -> Text:
        ours = re.sub(r"[^A-Za-z0-9_-]", "_", name)
        if name not in self.params:
            self.p.note(
                line,
                f"the workflow has no parameter `{name}`",
                "it is a param without a default: give it by -p",
            )
            self.params[name] = {"type": "string"}
        if ours not in self.p.params:
            self.p.params[ours] = self.params[name]
        return [Ref(f"params.{ours}")]

    def _result(self, step: str) -> Text:
        self.wanted.setdefault(step, {})["result"] = "$TMPDIR/result"
        return [Ref(f"steps.{step}.values.result")]

    # calls

    def _arguments(self, given: Any, scope: Scope) -> Tuple[Dict[str, Text], Dict[str, Any]]:
        given = given if isinstance(given, dict) else {}
        parameters = {}
        for p in _list(given.get("parameters")):
            if "value" in p:
                parameters[p["name"]] = self._text(p["value"], scope, _line(p, "value"))
            elif "valueFrom" in p:
                self.p.note(
                    _line(p, "valueFrom"),
                    f"parameter `{p['name']}` from {next(iter(p['valueFrom']), '?')}",
                    "it is a param here: -p sets it",
                )
                self.params.setdefault(p["name"], {"type": "string", "default": ""})
                parameters[p["name"]] = self._param(p["name"], None)
        artifacts: Dict[str, Any] = {}
        for a in _list(given.get("artifacts")):
            m = re.fullmatch(
                r"\{\{(?:tasks|steps)\.([^.]+)\.outputs\.artifacts\.([^}]+)\}\}",
                str(a.get("from", "")),
            )
            inner = re.fullmatch(r"\{\{inputs\.artifacts\.([^}]+)\}\}", str(a.get("from", "")))
            if m and m.group(1) in scope.ends and m.group(2) in scope.ends[m.group(1)].artifacts:
                artifacts[a["name"]] = scope.ends[m.group(1)].artifacts[m.group(2)]
            elif inner and inner.group(1) in scope.artifacts:
                artifacts[a["name"]] = scope.artifacts[inner.group(1)]
            elif "from" in a or "fromExpression" in a:
                self.p.note(
                    _line(a),
                    f"artifact `{a['name']}` from {a.get('from', 'an expression')}",
                    "write its source as an input of the step",
                )
            else:
                artifacts[a["name"]] = a
        return parameters, artifacts

    def _call(
        self,
        template: Map,
        prefix: str,
        parameters: Dict[str, Text],
        artifacts: Dict[str, Any],
        common: Dict[str, Any],
        depth: int,
    ) -> End:
        given = dict(parameters)
        inputs = template.get("inputs") or {}
        outer = Scope({}, {})
        for p in _list(inputs.get("parameters")):
            if p["name"] in given:
                continue
            if "value" in p or "default" in p:
                raw = p.get("value", p.get("default"))
                given[p["name"]] = self._text(raw, outer, _line(p))
            elif p["name"] in self.params:  # the entrypoint's are the workflow's
                given[p["name"]] = self._param(p["name"], _line(p))
            else:
                self.p.note(
                    _line(p),
                    f"parameter `{p['name']}` of `{template['name']}` has no value",
                    "it is a param here: -p sets it",
                )
                self.params[p["name"]] = {"type": "string"}
                given[p["name"]] = self._param(p["name"], _line(p))
        handed = dict(artifacts)
        for a in _list(inputs.get("artifacts")):
            if a["name"] not in handed and any(k in a for k in ("raw", "http", "s3", "gcs", "git")):
                handed[a["name"]] = a
        scope = Scope(given, handed)
        again = template["name"] in self.stack
        if depth > DEPTH_MAX or again:
            self.p.note(
                _line(template),
                f"template `{template['name']}` calls itself",
                "a loop is a step with `repeat: {until: …, max: …}`",
            )
            return End([], [], {}, {})
        self.stack.append(str(template["name"]))
        try:
            if "dag" in template:
                return self._dag(template, prefix, scope, common, depth)
            if "steps" in template:
                return self._steps(template, prefix, scope, common, depth)
            return self._leaf(template, prefix, scope, common)
        finally:
            self.stack.pop()

    def _find(self, task: Map) -> Optional[Map]:
        if "inline" in task:
            return Map_with(task["inline"], name=task["name"])
        if "templateRef" in task:
            ref = task["templateRef"]
            found = self.others.get(f"{ref.get('name')}/{ref.get('template')}")
            if found is None:
                self.p.note(
                    _line(task, "templateRef"),
                    f"template `{ref.get('template')}` of "
                    f"`{ref.get('name')}`, which isn't in this file",
                    "put both into one file, or write the step",
                )
            return found
        found = self.templates.get(task.get("template", ""))
        if found is None:
            self.p.note(_line(task), f"task `{task.get('name')}` has no template", "not imported")
        return found

    def _task(
        self,
        task: Map,
        prefix: str,
        scope: Scope,
        common: Dict[str, Any],
        needs: List[str],
        condition: Optional[str],
        depth: int,
    ) -> End:
        template = self._find(task)
        name = f"{prefix}{task['name']}"
        if template is None:
            return End([], [], {}, {})
        more: Dict[str, Any] = dict(common)
        more["needs"] = [*common.get("needs", []), *needs]
        conditions = [c for c in (common.get("if"), condition) if c]
        if "when" in task:
            asked = self._when(str(task["when"]), scope, _line(task, "when"))
            conditions += [asked] if asked else []
        if conditions:
            more["if"] = (
                conditions[0] if len(conditions) == 1 else " && ".join(f"({c})" for c in conditions)
            )
        if task.get("continueOn"):
            more["continue_on_error"] = True
        if task.get("hooks") or task.get("onExit"):
            self.p.note(
                _line(task),
                f"hooks of task `{task['name']}`",
                "a step with `if: \"${{ steps.X.state == 'failed' }}\"` acts on the end of another",
            )
        loops = [k for k in ("withItems", "withParam", "withSequence") if k in task]
        inner = Scope(scope.parameters, scope.artifacts)
        inner.ends = scope.ends
        if not loops:
            parameters, artifacts = self._arguments(task.get("arguments"), scope)
            return self._call(
                template,
                name if "dag" not in template and "steps" not in template else f"{name}-",
                parameters,
                artifacts,
                more,
                depth + 1,
            )
        leaf = "dag" not in template and "steps" not in template
        items = self._items(task, loops[0], scope)
        if isinstance(items, str):  # what a step made
            if not leaf:
                self.p.note(
                    _line(task, loops[0]),
                    f"task `{task['name']}` loops over what a step made, and calls several steps",
                    "give each of them `each`",
                )
                return End([], [], {}, {})
            more["each"] = items
            inner.item = Dynamic()
        elif items is None:
            return End([], [], {}, {})
        elif leaf:
            more["matrix"] = self._matrix(items, task, loops[0])
            inner.item = (
                {"": [Ref("matrix.item")]}
                if not isinstance(items[0], dict)
                else {str(k): [Ref(f"matrix.{_axis(k)}")] for k in items[0]}
            )
        if isinstance(items, str) or leaf:
            parameters, artifacts = self._arguments(task.get("arguments"), inner)
            return self._call(template, name, parameters, artifacts, more, depth + 1)
        ends = []
        for i, item in enumerate(items):
            inner.item = (
                {"": [str(item)]}
                if not isinstance(item, dict)
                else {str(k): [str(v)] for k, v in item.items()}
            )
            parameters, artifacts = self._arguments(task.get("arguments"), inner)
            ends.append(
                self._call(template, f"{name}-{i + 1}-", parameters, artifacts, more, depth + 1)
            )
        return End([s for e in ends for s in e.steps], [s for e in ends for s in e.all], {}, {})

    def _items(self, task: Map, loop: str, scope: Scope) -> Any:
        line = _line(task, loop)
        given = task[loop]
        if loop == "withItems" and isinstance(given, list):
            return list(given) or None
        if loop == "withSequence":
            texts = {k: _constant(self._text(v, scope, line)) for k, v in given.items()}
            try:
                first = int(texts.get("start") or 0)
                last = (
                    int(texts["end"] or 0)
                    if "end" in texts
                    else (first + int(texts.get("count") or 0) - 1)
                )
            except ValueError:
                self.p.note(
                    line,
                    "a sequence whose length is known in the run only",
                    "write it as a list that a step makes, and `each` over that",
                )
                return None
            step = 1 if last >= first else -1
            form = texts.get("format")
            return [form % i if form else i for i in range(first, last + step, step)] or None
        text = self._text(given, scope, line)
        constant = _constant(text)
        if constant is None and len(text) == 1 and isinstance(text[0], Ref):
            expr = text[0].expr
            if expr.startswith("params."):
                default = self.p.params.get(expr[7:])
                self.p.note(
                    line,
                    f"a loop over the parameter `{expr[7:]}`",
                    "its items are those of the default: write `matrix: {item: "
                    f'"${{{{ {expr} }}}}"}}` and make the param a list',
                )
                constant = str(default.get("default") if isinstance(default, dict) else default)
            else:
                return f"${{{{ {expr} }}}}"
        try:
            found = json.loads(constant or "")
            return found if isinstance(found, list) and found else None
        except ValueError:
            self.p.note(line, f"`{loop}` is no list", "give the step a `matrix` or `each`")
            return None

    def _matrix(self, items: List[Any], task: Map, loop: str) -> Dict[str, Any]:
        if all(isinstance(i, dict) for i in items):
            rows = [{_axis(k): v for k, v in i.items()} for i in items]
            for row in rows:
                for k, v in list(row.items()):
                    if isinstance(v, (dict, list)) or v is None:
                        row[k] = json.dumps(v)
            return {"include": rows}
        return {
            "item": list(
                dict.fromkeys(json.dumps(i) if isinstance(i, (dict, list)) else i for i in items)
            )
        }

    def _dag(
        self, template: Map, prefix: str, scope: Scope, common: Dict[str, Any], depth: int
    ) -> End:
        tasks = {t["name"]: t for t in _list(template["dag"].get("tasks"))}
        done: Set[str] = set()
        used: Set[str] = set()
        every: List[str] = []

        def visit(name: str) -> None:
            if name in done or name not in tasks:
                return
            done.add(name)
            task = tasks[name]
            depends = str(task.get("depends", ""))
            words = re.findall(r"[A-Za-z0-9_-]+(?=[.\s)&|!]|$)", re.sub(r"\.\w+", "", depends))
            before = [*_list(task.get("dependencies")), *(w for w in words if w in tasks)]
            before += [m for m in re.findall(r"tasks\.([\w-]+)\.", json.dumps(task)) if m in tasks]
            for other in before:
                visit(other)
            used.update(before)
            needs, condition = self._depends(depends, tasks, scope, _line(task, "depends"))
            for other in _list(task.get("dependencies")):
                needs += scope.ends[other].steps if other in scope.ends else []
            end = self._task(task, prefix, scope, common, needs, condition, depth)
            scope.ends[name] = end
            every.extend(end.all)

        for name in tasks:
            visit(name)
        last = [s for n in tasks if n not in used and n in scope.ends for s in scope.ends[n].steps]
        return self._outputs_of(template, scope, last, every)

    def _depends(
        self, text: str, tasks: Dict[str, Map], scope: Scope, line: Optional[int]
    ) -> Tuple[List[str], Optional[str]]:
        if not text:
            return [], None
        plain = [w.strip().replace(".Succeeded", "") for w in text.split("&&")]
        if all(w in tasks for w in plain):
            return [s for w in plain if w in scope.ends for s in scope.ends[w].steps], None
        states = {
            "Succeeded": ["succeeded"],
            "Failed": ["failed"],
            "Errored": ["failed"],
            "Skipped": ["skipped"],
            "Omitted": ["blocked"],
            "Completed": ["succeeded", "failed", "skipped"],
        }

        def term(m: re.Match[str]) -> str:
            name, _, state = m.group(0).partition(".")
            if name not in scope.ends:
                return m.group(0)
            wanted = states.get(state or "", ["succeeded", "skipped"])
            if state and state not in states:
                self.p.note(line, f"`{m.group(0)}`", "taken as succeeded")
            each = []
            for s in scope.ends[name].steps:
                any_of = " || ".join(f"steps.{s}.state == '{w}'" for w in wanted)
                each.append(f"({any_of})" if len(wanted) > 1 else any_of)
            return "(" + " && ".join(each) + ")" if len(each) > 1 else (each or ["true"])[0]

        return [], re.sub(r"[A-Za-z0-9_][\w.-]*", term, text)

    def _steps(
        self, template: Map, prefix: str, scope: Scope, common: Dict[str, Any], depth: int
    ) -> End:
        before: List[str] = []
        every: List[str] = []
        for group in template["steps"]:
            now: List[str] = []
            for task in group if isinstance(group, list) else [group]:
                end = self._task(task, prefix, scope, common, before, None, depth)
                scope.ends[task["name"]] = end
                now += end.steps
                every += end.all
            before = now or before
        return self._outputs_of(template, scope, before, every)

    def _outputs_of(self, template: Map, scope: Scope, last: List[str], every: List[str]) -> End:
        parameters: Dict[str, Text] = {}
        artifacts: Dict[str, str] = {}
        outputs = template.get("outputs") or {}
        for p in _list(outputs.get("parameters")):
            given = p.get("valueFrom") or {}
            if "parameter" in given:
                parameters[p["name"]] = self._text(given["parameter"], scope, _line(p))
            else:
                self.p.note(
                    _line(p),
                    f"output `{p['name']}` of `{template['name']}` by an expression",
                    "write it where it is used, as ${{ … }}",
                )
        for a in _list(outputs.get("artifacts")):
            m = re.fullmatch(
                r"\{\{(?:tasks|steps)\.([^.]+)\.outputs\.artifacts\.([^}]+)\}\}",
                str(a.get("from", "")),
            )
            end = scope.ends.get(m.group(1)) if m else None
            if m and end and m.group(2) in end.artifacts:
                artifacts[a["name"]] = end.artifacts[m.group(2)]
            else:
                self.p.note(
                    _line(a),
                    f"output `{a['name']}` of `{template['name']}`",
                    "read the step's output where it is used",
                )
        return End(last, every, parameters, artifacts)

    # conditions

    def _when(self, raw: str, scope: Scope, line: Optional[int]) -> Optional[str]:
        if re.search(r"\{\{=|=~|!~", raw):
            self.p.note(
                line,
                f"the condition `{raw}`",
                'write it as `if: "${{ … }}"`; without it the step always runs',
            )
            return None
        tokens = re.findall(
            r"\{\{.*?\}\}|'[^']*'|\"[^\"]*\"|&&|\|\||[=!<>]=|[<>()!]|[^\s()&|=!<>]+", raw
        )
        out: List[str] = []
        for t in tokens:
            if t in ("&&", "||", "(", ")", "!", "==", "!=", "<", "<=", ">", ">="):
                out.append(t)
            elif t.startswith(("'", '"')) and "{{" not in t:
                out.append("'" + t[1:-1].replace("'", "''") + "'")
            else:
                self.asking = True
                text = self._text(t.strip("'\""), scope, line)
                self.asking = False
                if len(text) == 1 and isinstance(text[0], Ref):
                    out.append(text[0].expr)
                    continue
                constant = _constant(text)
                if constant is None:
                    self.p.note(line, f"the condition `{raw}`", 'write it as `if: "${{ … }}"`')
                    return None
                number = re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", constant)
                out.append(constant if number else "'" + constant.replace("'", "''") + "'")
        for i, t in enumerate(out):  # states are written with small letters here
            if t == "run.state" or t.endswith(".state"):
                for k in (i - 2, i + 2):
                    if 0 <= k < len(out) and out[k].startswith("'"):
                        out[k] = out[k].lower()
            m = re.fullmatch(r"params\.([\w-]+)", t)
            kind = self.p.params.get(m.group(1)) if m else None
            for k in (i - 2, i + 2):
                if isinstance(kind, str) and 0 <= k < len(out) and out[k][:1].isdigit():
                    out[k] = f"'{out[k]}'"
        if len(out) == 3 and all(t[:1] in "'-0123456789" for t in (out[0], out[2])):
            same = out[0] == out[2]
            if out[1] in ("==", "!="):
                return "true" if same == (out[1] == "==") else "false"
        return " ".join(out)

    # steps

    def _leaf(self, template: Map, prefix: str, scope: Scope, common: Dict[str, Any]) -> End:
        name = self.names.new(prefix or template["name"])
        step: Dict[str, Any] = {k: v for k, v in common.items() if v}
        if "suspend" in template:
            return self._suspend(name, template, step)
        kinds = [
            k
            for k in ("container", "script", "containerSet", "resource", "http", "data", "plugin")
            if k in template
        ]
        if kinds and kinds[0] in ("container", "script"):
            spec = template[kinds[0]]
        else:
            what = kinds[0] if kinds else "nothing to run"
            self.p.note(
                _line(template),
                f"template `{template['name']}` is {what}",
                "its step does nothing: write its command",
            )
            step["run"] = f"echo {shlex.quote(str(template['name']))} was not imported"
            self._add(name, step)
            return End([name], [name], {}, {})
        files: Dict[str, str] = {}  # absolute path → what stands for it
        inputs: Dict[str, str] = {}
        before: List[str] = []
        after: Dict[str, str] = {}
        for a in _list((template.get("inputs") or {}).get("artifacts")):
            self._artifact_in(a, scope, inputs, files, before)
        outputs: Dict[str, str] = {}
        parameters: Dict[str, Text] = {}
        artifacts: Dict[str, str] = {}
        made = template.get("outputs") or {}
        for a in _list(made.get("artifacts")):
            if "path" not in a:
                continue
            path = a["path"].lstrip("/")
            out = ident(a["name"], outputs)
            outputs[out] = path
            files[a["path"]] = f"${{{{ outputs.{out} }}}}"
            files[f"{{{{outputs.artifacts.{a['name']}.path}}}}"] = f"${{{{ outputs.{out} }}}}"
            artifacts[a["name"]] = f"${{{{ steps.{name}.outputs.{out} }}}}"
        for p in _list(made.get("parameters")):
            given = p.get("valueFrom") or {}
            if "path" not in given:
                self.p.note(_line(p), f"output parameter `{p['name']}`", "only a file has one here")
                continue
            path = given["path"].lstrip("/")
            files[given["path"]] = path
            files[f"{{{{outputs.parameters.{p['name']}.path}}}}"] = path
            if "/" in path:
                before.append(f'mkdir -p "$PWD/{path.rpartition("/")[0]}"')
            after[ident(p["name"], after)] = path
            parameters[p["name"]] = [Ref(f"steps.{name}.values.{ident(p['name'])}")]
            if "default" in given:
                before.append(f"printf %s {shlex.quote(str(given['default']))} >{path}")
        step["image"] = spec.get("image") if "{{" not in str(spec.get("image", "")) else None
        run, shell = self._command(template, spec, scope, files)
        # The three are put together when it is known whether others read the output.
        step["run"], step["shell"] = run, "bash" if shell == "bash" else None
        self.around[name] = (list(dict.fromkeys(before)), after)
        for path, of in files.items():
            if path.startswith("/") and of not in run and not any(of in b for b in before):
                self.p.note(
                    _line(template),
                    f"{path} isn't named in the command of `{template['name']}`",
                    f"its program must use {of} instead",
                )
        step["inputs"], step["outputs"] = inputs, outputs
        self._settings(template, spec, step, scope)
        self._add(name, step)
        return End([name], [name], parameters, artifacts)

    def _add(self, name: str, step: Dict[str, Any]) -> None:
        into = self.p.finally_ if self.finally_ else self.p.steps
        step["needs"] = [n for n in dict.fromkeys(step.get("needs") or []) if n in into]
        if step.get("if"):
            step["if"] = f"${{{{ {step['if']} }}}}"
        order = (
            "needs",
            "if",
            "matrix",
            "each",
            "image",
            "shell",
            "run",
            "approve",
            "inputs",
            "outputs",
            "env",
            "secrets",
            "resources",
            "retry",
            "timeout",
            "concurrency",
            "continue_on_error",
            "cache",
            "kubernetes",
        )
        into[name] = {k: step[k] for k in order if step.get(k)}

    def _suspend(self, name: str, template: Map, step: Dict[str, Any]) -> End:
        duration = (template["suspend"] or {}).get("duration")
        step["approve"] = True
        if duration:
            text = str(duration)
            step["approve"] = {"default": "approve"}
            step["timeout"] = f"{text}s" if text.isdigit() else text
        step.pop("continue_on_error", None)
        self._add(name, step)
        return End([name], [name], {}, {})

    def _artifact_in(
        self, a: Map, scope: Scope, inputs: Dict[str, str], files: Dict[str, str], before: List[str]
    ) -> None:
        given = scope.artifacts.get(a["name"])
        name = ident(a["name"], inputs)
        path = a.get("path")
        if given is None:
            if not a.get("optional"):
                self.p.note(
                    _line(a),
                    f"artifact `{a['name']}` has no source",
                    "give the step an input of this name",
                )
            return
        if isinstance(given, str):
            inputs[name] = given
        elif "raw" in given:
            before.append(f"cat >{name} <<'RAW'\n{literal(str(given['raw']['data']))}\nRAW")
            if path:
                files[path] = name
            return
        elif "http" in given or "s3" in given or "gcs" in given:
            kind = next(k for k in ("http", "s3", "gcs") if k in given)
            spec = given[kind]
            uri = (
                spec.get("url")
                or f"{kind.replace('gcs', 'gs')}://{spec.get('bucket', 'bucket')}/"
                f"{spec.get('key', '')}"
            )
            if not uri.startswith(("https://", "s3://", "gs://")):
                self.p.note(
                    _line(given),
                    f"artifact from {uri}",
                    "only https, s3 and gs: bring it into the project, as an input",
                )
                return
            own = ident(a["name"], self.p.inputs)
            self.p.inputs[own] = uri
            inputs[name] = f"${{{{ inputs.{own} }}}}"
        else:
            kind = next((k for k in given if k not in ("name", "path")), "nothing")
            self.p.note(
                _line(given) or _line(a),
                f"artifact `{a['name']}` from {kind}",
                "bring it into the project, as an input of the pipeline",
            )
            return
        if path:
            files[path] = f"${{{{ inputs.{name} }}}}"
        files[f"{{{{inputs.artifacts.{a['name']}.path}}}}"] = f"${{{{ inputs.{name} }}}}"

    def _command(
        self, template: Map, spec: Map, scope: Scope, files: Dict[str, str]
    ) -> Tuple[str, str]:
        line = _line(spec)
        command = [str(c) for c in _list(spec.get("command"))]
        args = [str(a) for a in _list(spec.get("args"))]
        shell = command[0].rpartition("/")[2] if command else ""
        flags = command[1:] if "script" in template else []
        if "script" in template:
            text = self._text(spec.get("source", ""), scope, _line(spec, "source"))
            if shell in ("sh", "bash", "ash", "") and not [
                f for f in flags if f.strip("-") not in ("c", "e", "x", "ex", "ec")
            ]:
                body = self._join(text, files, literal, Quotes())
                return self._as_sh(body, "bash" if shell == "bash" else "sh"), shell
            return self._script(text, command, files), "sh"
        words = command + args
        if not words:
            self.p.note(
                line,
                f"template `{template['name']}` runs its image's own command",
                "write the command: a step has one",
            )
            return f"echo {shlex.quote(str(template['name']))} has no command", "sh"
        texts = [self._text(w, scope, line) for w in words]
        if (
            shell in ("sh", "bash", "ash")
            and len(words) == 3
            and words[1] in ("-c", "-ec", "-xc", "-exc")
        ):
            return self._as_sh(
                self._join(texts[2], files, literal, Quotes()), "bash" if shell == "bash" else "sh"
            ), shell
        if len(words) >= 3 and words[1] == "-c" and any(isinstance(t, Ref) for t in texts[2]):
            return self._script(texts[2], [words[0]], files), "sh"
        return " ".join(self._word(t, files) for t in texts), "sh"

    @staticmethod
    def _as_sh(body: str, shell: str) -> str:
        """Argo's shells go on after a command that fails."""
        body = body.strip("\n")
        several = re.search(r"\n|;|&&", body)
        return ("set +e\n" if shell == "sh" else "set +e +o pipefail\n") + body if several else body

    def _join(
        self,
        text: Text,
        files: Dict[str, str],
        escape: Callable[[str], str],
        quotes: Optional[Quotes] = None,
    ) -> str:
        """The whole text with values and paths in it. In single quotes of a shell, where no value
        can stand, the quotes end around it."""
        out = []
        for t in text:
            parts: Text = [t]
            for path in files:
                parts = [
                    q
                    for p in parts
                    for q in (
                        re.split(f"({re.escape(path)}(?![\\w.-]))", p)
                        if isinstance(p, str)
                        else [p]
                    )
                ]
            for p in parts:
                value = f"${{{{ {p.expr} }}}}" if isinstance(p, Ref) else files.get(p)
                if value is None:
                    out.append(escape(str(p)))
                    if quotes:
                        quotes.read(str(p))
                elif quotes and quotes.single and "${{" in value:
                    out.append(f"'\"{value}\"'")
                else:
                    out.append(value)
        return "".join(out)

    def _word(self, text: Text, files: Dict[str, str]) -> str:
        if any(isinstance(t, Ref) for t in text) or any(
            isinstance(t, str) and any(f in t for f in files) for t in text
        ):

            def quoted(s: str) -> str:
                return literal(re.sub(r'(["\\$`])', r"\\\1", s))

            return '"' + self._join(text, files, quoted) + '"'
        return literal(shlex.quote(_constant(text) or ""))

    def _script(self, text: Text, command: List[str], files: Dict[str, str]) -> str:
        """A program in another language, in a file. With values in it, these are put in when the
        file is written, as Argo does."""
        program = " ".join(shlex.quote(c) for c in command)
        has_values = any(isinstance(t, Ref) for t in text)
        body = self._join(
            text, files, (lambda s: literal(in_heredoc(s))) if has_values else literal
        )
        body = body.rstrip("\n")
        if "${{ " in body:
            return f'cat >"$TMPDIR/script" <<SCRIPT\n{body}\nSCRIPT\n{program} "$TMPDIR/script"'
        return f'cat >"$TMPDIR/script" <<\'SCRIPT\'\n{body}\nSCRIPT\n{program} "$TMPDIR/script"'

    def _settings(self, template: Map, spec: Map, step: Dict[str, Any], scope: Scope) -> None:
        env: Dict[str, Any] = {}
        secrets: List[str] = []
        for e in _list(spec.get("env")):
            if "value" in e:
                text = self._text(e["value"], scope, _line(e))
                env[e["name"]] = self._join(text, {}, literal)
            elif "secretKeyRef" in (e.get("valueFrom") or {}):
                secrets.append(e["name"])
                self.p.note(
                    _line(e),
                    f"the secret of {e['name']}",
                    f"`cairn secret set {e['name']}` gives its value",
                )
            else:
                self.p.note(_line(e), f"variable {e['name']} from elsewhere", "not imported")
        step["env"], step["secrets"] = env, secrets
        wants = (
            (spec.get("resources") or {}).get("requests")
            or (spec.get("resources") or {}).get("limits")
            or {}
        )
        resources: Dict[str, Any] = {}
        for k, v in wants.items():
            if k == "nvidia.com/gpu":
                resources["gpu"] = int(v)
            elif k in ("cpu", "memory"):
                resources[k] = v
        step["resources"] = resources
        retry = template.get("retryStrategy")
        if isinstance(retry, dict):
            limit = str(retry.get("limit", 3))
            said: Dict[str, Any] = {"max": int(limit)} if limit.isdigit() else {"max": 3}
            back = retry.get("backoff") or {}
            if "duration" in back:
                first = str(back["duration"])
                first = f"{first}s" if first.isdigit() else first
                top = str(back.get("maxDuration", "")) or None
                said["backoff"] = (
                    f"{first}..{top}s"
                    if top and top.isdigit()
                    else (f"{first}..{top}" if top else first)
                )
            step["retry"] = said
            if retry.get("expression"):
                self.p.note(
                    _line(retry, "expression"),
                    "when to retry, by an expression",
                    "`retry` counts each class of failure by itself",
                )
        time = template.get("activeDeadlineSeconds", template.get("timeout"))
        if time is not None:
            text = self._text(time, scope, _line(template))
            said_limit = self._join(text, {}, literal)
            step["timeout"] = f"{said_limit}s" if said_limit.isdigit() else said_limit
            if step["timeout"] == "0s":
                del step["timeout"]
        mutex = (template.get("synchronization") or {}).get("mutex") or next(
            iter((template.get("synchronization") or {}).get("mutexes") or []), None
        )
        if mutex and "{{" not in str(mutex.get("name")):
            step["concurrency"] = str(mutex["name"])
        if template.get("nodeSelector"):
            chosen = {
                k: _constant(self._text(v, scope, _line(template)))
                for k, v in template["nodeSelector"].items()
            }
            step["kubernetes"] = {"node_selector": {k: v for k, v in chosen.items() if v}}
            for k in (k for k, v in chosen.items() if not v):
                self.p.note(
                    _line(template, "nodeSelector"),
                    f"node selector {k} by a parameter",
                    "it takes constants here",
                )
        if template.get("daemon"):
            self.p.note(
                _line(template, "daemon"),
                f"`{template['name']}` is a daemon",
                "a step ends: start the server in the step that uses it",
            )
        for where in (template, spec):
            for key in where:
                if key in (
                    "volumes",
                    "volumeMounts",
                    "sidecars",
                    "initContainers",
                    "affinity",
                    "tolerations",
                    "podSpecPatch",
                    "securityContext",
                    "envFrom",
                    "memoize",
                    "parallelism",
                    "failFast",
                    "hooks",
                    "metrics",
                    "archiveLocation",
                ):
                    todo = {
                        "memoize": "steps are cached by their content here, without a word",
                        "parallelism": "`-j` of cairn run, or `concurrency`",
                        "volumeMounts": "files come as inputs; `volumes` is for Kubernetes only",
                    }.get(key, "not imported")
                    self.p.note(_line(where, key), f"`{key}` of `{template['name']}`", todo)

    # the whole

    def _schedule(self) -> None:
        spec = self.doc["spec"]
        crons = spec.get("schedules") or [spec.get("schedule")]
        overlap = {"Allow": "allow", "Forbid": "skip", "Replace": "replace"}
        for i, cron in enumerate(c for c in crons if c):
            said = {
                "cron": str(cron),
                "timezone": spec.get("timezone"),
                "overlap": overlap.get(str(spec.get("concurrencyPolicy", "Allow"))),
            }
            name = "schedule" if len(crons) == 1 else f"schedule-{i + 1}"
            self.p.schedules[name] = {k: v for k, v in said.items() if v}
        for key in spec:
            if key in ("startingDeadlineSeconds", "when", "stopStrategy"):
                self.p.note(_line(spec, key), f"`{key}`", "see `catch_up_window` and `alert_after`")
            if key == "suspend" and spec[key]:
                self.p.note(_line(spec, key), "it is suspended", "`cairn schedule pause`")

    def convert(self) -> Pipeline:
        spec = self.spec
        if self.kind == "CronWorkflow":
            self._schedule()
        for p in _list((spec.get("arguments") or {}).get("parameters")):
            value = p.get("value", p.get("default"))
            text = json.dumps(value) if isinstance(value, (dict, list)) else value
            if isinstance(text, bool):
                text = "true" if text else "false"
            declared: Any = {"type": "string"} if text is None else str(text)
            if p.get("enum"):
                declared = {"enum": [str(e) for e in p["enum"]], "default": str(text)}
            elif declared == "":
                declared = {"type": "string", "default": ""}
            self.params[p["name"]] = declared
        entry = self.templates.get(str(spec.get("entrypoint", "")))
        if entry is None:
            if "workflowTemplateRef" in spec:
                raise ImportFailed(
                    f"{self.p.source}: its templates are in another file",
                    "import the workflow template, or put both into one file",
                )
            if not self.templates:
                raise ImportFailed(f"{self.p.source} has no templates")
            entry = next(iter(self.templates.values()))
            self.p.note(_line(spec), "there is no entrypoint", f"`{entry['name']}` is taken")
        root = Scope({}, {})
        _, artifacts = self._arguments(spec.get("arguments"), root)
        self._call(
            entry,
            "" if "dag" in entry or "steps" in entry else str(entry["name"]),
            {},
            artifacts,
            {},
            0,
        )
        if spec.get("onExit") in self.templates:
            handler = self.templates[spec["onExit"]]
            self.finally_ = True
            self._call(
                handler,
                "" if "dag" in handler or "steps" in handler else str(handler["name"]),
                {},
                {},
                {},
                0,
            )
        for key in spec:
            if key in (
                "hooks",
                "synchronization",
                "parallelism",
                "volumeClaimTemplates",
                "volumes",
                "podGC",
                "ttlStrategy",
                "metrics",
                "templateDefaults",
                "activeDeadlineSeconds",
                "podSpecPatch",
                "securityContext",
                "retryStrategy",
                "affinity",
                "tolerations",
                "nodeSelector",
                "artifactRepositoryRef",
            ):
                todo = {
                    "parallelism": "`cairn run -j`",
                    "podGC": "not needed",
                    "ttlStrategy": "`retention` in cairn.yaml",
                }.get(key, "not imported")
                self.p.note(_line(spec, key), f"`{key}` of the workflow", todo)
        self._finish()
        return self.p

    def _finish(self) -> None:
        for steps in (self.p.steps, self.p.finally_):
            for name, step in steps.items():
                before, after = self.around.get(name, ([], {}))
                after = {**after, **self.wanted.get(name, {})}
                run = step.get("run")
                if run is None:
                    continue
                if "result" in self.wanted.get(name, {}):
                    run = f'(\n{run}\n) >"$TMPDIR/result"\ncat "$TMPDIR/result"'
                if after:
                    run = f"{run}\n{write_values(after)}"
                    step["values"] = "values.json"
                elif before and run.startswith("set +e"):
                    run = run.replace("\n", "\n" + "\n".join(before) + "\n", 1)
                    before = []
                step["run"] = "\n".join([*before, run])
        if not self.p.steps:
            raise ImportFailed(f"{self.p.source}: nothing of it could be imported")


def _axis(name: Any) -> str:
    axis = re.sub(r"[^A-Za-z0-9_-]", "_", str(name))
    return axis if axis[0].isalpha() or axis[0] == "_" else f"a_{axis}"


class Dynamic(Dict[str, Text]):
    """Items that a step makes: their members are known in the run."""

    def get(self, key: str, default: Any = None) -> Any:
        return [Ref(f"item.{key}" if key else "item")]


def Map_with(given: Map, **more: Any) -> Map:
    out = Map(given.line)
    out.lines.update(given.lines)
    out.update(given)
    out.update(more)
    return out


def convert(path: str) -> Pipeline:
    return Importer(path).convert()
