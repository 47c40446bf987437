"""answers.py SCHEMA FILE...: each FILE is a document that a command printed with --json, as SCHEMA (`cairn help json --json`) says.

Stricter than the published schema: a member that the schema doesn't name is an error here, so that none is undescribed. With --all, each
answer of the schema and each of its members must be in some file, unless --but=NAME (an answer, or answer.member) names it."""

import json
import sys

import jsonschema


def whole(schema, parts):
    """The schema without references, and closed."""
    if isinstance(schema, list):
        return [whole(s, parts) for s in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        part = {**parts[name], "title": name}
        if "properties" in schema:
            part["properties"] = {**part["properties"], **schema["properties"]}
            part["required"] = part["required"] + schema["required"]
        schema = part
    out = {}
    for k, v in schema.items():
        if k == "properties":
            out[k] = {name: whole(s, parts) for name, s in v.items()}
        elif k in ("items", "additionalProperties", "anyOf", "oneOf"):
            out[k] = whole(v, parts)
        else:
            out[k] = v
    if "properties" in out:
        out.setdefault("additionalProperties", False)
    return out


def members(schema, path, document=None, seen=None):
    """The names of all members, or only of those that the document has. Those of a part are called after it, wherever it is used."""
    path = schema.get("title", path)
    out = set()
    for s in schema.get("anyOf", []):
        out |= members(s, path, document, seen)
    if seen and isinstance(document, list):
        for v in document:
            out |= members(schema.get("items", {}), path, v, seen)
    elif not seen and "items" in schema:
        out |= members(schema["items"], path)
    more = schema.get("additionalProperties")
    if isinstance(more, dict) and (not seen or isinstance(document, dict)):
        for v in document.values() if seen else [None]:
            out |= members(more, path, v, seen)
    for name, s in schema.get("properties", {}).items():
        if not seen or (isinstance(document, dict) and name in document):
            out.add(f"{path}.{name}")
            out |= members(s, f"{path}.{name}", document[name] if seen else None, seen)
    return out


def main():
    options = [a for a in sys.argv[1:] if a.startswith("--")]
    files = [a for a in sys.argv[1:] if not a.startswith("--")]
    with open(files.pop(0), encoding="utf-8") as f:
        table = json.load(f)
    jsonschema.Draft202012Validator.check_schema(table)
    parts = table["components"]["schemas"]
    answers = {a["title"]: whole(a, parts) for a in table["oneOf"]}
    bad, seen = 0, set()
    for path in files:
        with open(path, encoding="utf-8") as f:
            document = json.load(f)
        name = document.get("schema")
        if name not in answers:
            print(f"{path}: no answer is called {name}")
            bad += 1
            continue
        for e in jsonschema.Draft202012Validator(answers[name]).iter_errors(document):
            print(f"{path}: {name}: {'/'.join(map(str, e.absolute_path))}: {e.message[:300]}")
            bad += 1
        seen |= {name} | members(answers[name], name, document, True)
    missed = set()
    if "--all" in options:
        but = {o[len("--but="):] for o in options if o.startswith("--but=")}
        for name, schema in answers.items():
            for m in sorted({name} | members(schema, name)) if name in seen else [name]:
                if m not in seen and m not in missed and not any(m == b or m.startswith(b + ".") for b in but):
                    missed.add(m)
                    print(f"{m}: no file has it")
        for b in sorted(b for b in but & seen if b in answers):
            print(f"{b}: a file has it, so it needs no exception")
            bad += 1
    return 1 if bad or missed else 0


if __name__ == "__main__":
    sys.exit(main())
