"""export_check.py openlineage|slsa|ro-crate FILE: holds an export against the published models of the format: the generated classes of
openlineage-python (strict: an unknown member, a missing one or a wrong facet version is an error), the protobuf messages of
in-toto-attestation, roc-validator's SHACL shapes and the parser of rocrate. Prints what it has seen."""

import json
import sys


def openlineage(path):
    import importlib
    import inspect
    import pkgutil
    import typing

    import attr
    import openlineage.client.generated as generated
    from openlineage.client.generated import base

    by_schema = {}
    for module in pkgutil.iter_modules(generated.__path__):
        m = importlib.import_module(f"openlineage.client.generated.{module.name}")
        for _, cls in inspect.getmembers(m, inspect.isclass):
            if hasattr(cls, "_get_schema") and issubclass(cls, base.BaseFacet) and cls.__module__ == m.__name__:
                by_schema[cls._get_schema()] = cls

    def build(cls, value, where):
        """An instance of an attrs class from a JSON object, and nothing left over."""
        fields = {f.name.lstrip("_") if f.name.startswith("_") else f.name: f for f in attr.fields(cls)}
        value = dict(value)
        if issubclass(cls, base.BaseFacet):
            assert value.pop("_producer") and value.pop("_schemaURL") == cls._get_schema(), where
        if issubclass(cls, base.BaseEvent):
            assert value.pop("schemaURL") == cls._get_schema(), where
        unknown = set(value) - set(fields)
        assert not unknown, f"{where}: {cls.__name__} has no {unknown}"
        hints = typing.get_type_hints(cls, vars(sys.modules[cls.__module__]) | vars(base))
        args = {}
        for name, v in value.items():
            args[name] = convert(hints[fields[name].name], v, f"{where}.{name}")
        return cls(**args)

    def convert(hint, v, where):
        if where.endswith(("acets",)):
            return {k: facet(k, f, where) for k, f in v.items()}
        options = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, type(int | None)) else (hint,)
        for option in options:
            if typing.get_origin(option) is list and isinstance(v, list):
                return [convert(typing.get_args(option)[0], x, f"{where}[]") for x in v]
            if inspect.isclass(option) and attr.has(option) and isinstance(v, dict):
                return build(option, v, where)
            if inspect.isclass(option) and issubclass(option, base.Enum):
                return option(v)
            if inspect.isclass(option) and isinstance(v, option) and not isinstance(v, dict):
                return v
        raise AssertionError(f"{where}: {v!r} is no {hint}")

    def facet(name, v, where):
        cls = by_schema.get(v.get("_schemaURL"))
        assert cls, f"{where}.{name}: {v.get('_schemaURL')} is the schema of no facet"
        seen.add(name)
        return build(cls, v, f"{where}.{name}")

    seen, types = set(), {}
    for line in open(path, encoding="utf-8"):
        event = build(base.RunEvent, json.loads(line), "event")
        types.setdefault(event.run.runId, []).append(event.eventType.value)
    for run, sequence in types.items():
        assert sequence[0] == "START" and len(sequence) == 2 and sequence[1] in ("COMPLETE", "FAIL", "ABORT"), (run, sequence)
    print("runs", len(types), "facets", *sorted(seen))


def slsa(path):
    import in_toto_attestation.predicates.provenance.v1.provenance_pb2 as provenance
    from google.protobuf import json_format
    from in_toto_attestation.v1 import statement_pb2
    from in_toto_attestation.v1.statement import Statement

    j = json.load(open(path, encoding="utf-8"))
    statement = json_format.ParseDict(j, statement_pb2.Statement())  # strict: unknown fields are errors
    Statement.copy_from_pb(statement).validate()
    assert j["predicateType"] == "https://slsa.dev/provenance/v1"
    p = json_format.ParseDict(j["predicate"], provenance.Provenance())
    assert p.build_definition.build_type and p.run_details.builder.id and p.build_definition.external_parameters.fields
    assert p.run_details.metadata.started_on.ToNanoseconds() <= p.run_details.metadata.finished_on.ToNanoseconds()
    for d in p.build_definition.resolved_dependencies:
        assert d.digest and (d.name or d.uri)
    print("subjects", len(statement.subject), "dependencies", len(p.build_definition.resolved_dependencies))


def ro_crate(path):
    import os

    import rocrate
    import rocrate_validator.utils.document_loader as loader
    from rocrate.rocrate import ROCrate
    from rocrate_validator import models, services
    from rocrate_validator.utils.http import HttpRequester

    # The context that RO-Crate publishes lies in the package rocrate; nothing is fetched.
    with open(os.path.join(os.path.dirname(rocrate.__file__), "data", "ro-crate.jsonld"), encoding="utf-8") as f:
        context = json.load(f)

    class Answer:
        status_code, headers, text = 200, {"Content-Type": "application/ld+json"}, json.dumps(context)

        def json(self):
            return context

        def raise_for_status(self):
            pass

    def fetch(url, *args, **kwargs):
        assert url == "https://w3id.org/ro/crate/1.1/context", url
        return Answer()

    loader._fetch_json_ld = lambda url: fetch(url).json()
    requester = HttpRequester()
    for one in (requester, type(requester)):
        one.get = lambda *args, **kwargs: fetch(next(a for a in args if isinstance(a, str)), **kwargs)
    for profile in ("ro-crate-1.1", "process-run-crate"):
        found = services.validate(services.ValidationSettings(rocrate_uri=path, profile_identifier=profile, requirement_severity=models.Severity.REQUIRED))
        problems = [f"{i.check.identifier}: {i.message}" for i in found.get_issues()]
        assert not problems, problems

    crate = ROCrate(path)
    actions = [e for e in crate.get_entities() if e.type == "CreateAction"]
    assert crate.root_dataset["name"] and crate.root_dataset["license"] is not None
    for a in actions:
        assert a["instrument"]["name"]
    print("actions", len(actions), "files", len([e for e in crate.get_entities() if e.type == "File"]))


{"openlineage": openlineage, "slsa": slsa, "ro-crate": ro_crate}[sys.argv[1]](sys.argv[2])
