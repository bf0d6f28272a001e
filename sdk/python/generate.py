#!/usr/bin/env python3
"""Writes what is generated of this package: `types.py` from docs/openapi.json, and `_sync/` from `_async/`.

usage: generate.py [--check]
  --check   writes nothing, and fails if a file is not as it would be written
"""

from __future__ import annotations

import json
import keyword
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PACKAGE = HERE / "src" / "slipway"
OPENAPI = HERE.parent.parent / "docs" / "openapi.json"

TYPES_HEADER = '''"""Types of the API, generated from docs/openapi.json by generate.py."""

# ruff: noqa
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

if TYPE_CHECKING:
    from typing_extensions import NotRequired, TypeAlias
'''

Schema = dict[str, Any]
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "object": "dict[str, Any]"}


def type_of(schema: Any) -> str:
    """The Python type of a schema."""
    if not isinstance(schema, dict):
        return "Any"
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[1])
    for several in ("oneOf", "anyOf"):
        # Beside properties they only say which of those go together.
        if several in schema and "properties" not in schema:
            return union(type_of(each) for each in schema[several])
    if "enum" in schema:
        words = ("None" if word is None else json.dumps(word) for word in schema["enum"])
        return f"Literal[{', '.join(words)}]"
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return union(type_of({**schema, "type": kind}) for kind in kinds)
    if kinds == "array":
        return f"list[{type_of(schema.get('items'))}]"
    if kinds == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"dict[str, {type_of(schema['additionalProperties'])}]"
    return PLAIN.get(str(kinds), "Any")


def union(types: Any) -> str:
    unique = list(dict.fromkeys(types))
    if "Any" in unique:
        return "Any"
    return unique[0] if len(unique) == 1 else f"Union[{', '.join(unique)}]"


def described(schema: Any, indent: str) -> str:
    text = " ".join(str(schema.get("description", "")).split()) if isinstance(schema, dict) else ""
    text = text.replace("\\", "\\\\").replace('"""', "'''")
    return f'{indent}"""{text}"""\n' if text else ""


def fields_of(schema: Schema) -> dict[str, str]:
    """Types of the fields; those that may be absent are `NotRequired`."""
    required = set(schema.get("required", []))
    types = {name: type_of(each) for name, each in schema["properties"].items()}
    return {name: each if name in required else f"NotRequired[{each}]" for name, each in types.items()}


def definition(name: str, schema: Schema) -> str:
    if "properties" not in schema:
        return f'{name}: TypeAlias = "{type_of(schema)}"\n{described(schema, "")}'
    fields = fields_of(schema)
    if all(field.isidentifier() and not keyword.iskeyword(field) for field in fields):
        lines = [f"    {field}: {each}\n{described(schema['properties'][field], '    ')}" for field, each in fields.items()]
        return f"class {name}(TypedDict):\n{described(schema, '    ')}{''.join(lines) or '    pass' + chr(10)}"
    pairs = "".join(f"        {json.dumps(field)}: {json.dumps(each)},\n" for field, each in fields.items())
    return f'{name} = TypedDict(\n    "{name}",\n    {{\n{pairs}    }},\n)\n{described(schema, "")}'


def types() -> str:
    schemas = json.loads(OPENAPI.read_text())["components"]["schemas"]
    parts = [TYPES_HEADER]
    for name, schema in schemas.items():
        text = definition(name, schema)
        # An alias is quoted by itself: quotes inside it would end it.
        if ": TypeAlias = " in text.splitlines()[0]:
            first, *rest = text.splitlines(keepends=True)
            before, value = first.split(" = ", 1)
            inner = value.strip()[1:-1]
            text = f"{before} = {json.dumps(inner) if chr(34) not in inner else repr(inner)}\n" + "".join(rest)
        parts.append(f"\n\n{text}")
    return "".join(parts)


# A word of the asynchronous package, and what it is in the other one.
WORDS = [
    (r"async def", "def"),
    (r"async for", "for"),
    (r"async with", "with"),
    (r"\bawait ", ""),
    (r"__aenter__", "__enter__"),
    (r"__aexit__", "__exit__"),
    (r"__aiter__", "__iter__"),
    (r"\baclose\b", "close"),
    (r"\baread\b", "read"),
    (r"\baiter_raw\b", "iter_raw"),
    (r"\baiter_bytes\b", "iter_bytes"),
    (r"\basync_sleep\b", "sleep"),
    (r"\b_async\b", "_sync"),
    (r"\bAsync([A-Z]\w*)", r"\1"),
]


def synchronous(text: str) -> str:
    for word, instead in WORDS:
        text = re.sub(word, instead, text)
    first, rest = text.split("\n", 1)
    return f"{first}\n# Generated from the file of this name in _async by generate.py.\n{rest}"


def wanted() -> dict[Path, str]:
    files = {PACKAGE / "types.py": types()}
    for source in sorted((PACKAGE / "_async").glob("*.py")):
        files[PACKAGE / "_sync" / source.name] = synchronous(source.read_text())
    return files


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    files = wanted()
    extra = set((PACKAGE / "_sync").glob("*.py")) - set(files)
    old = [path for path, text in files.items() if not path.exists() or path.read_text() != text] + sorted(extra)
    for path in old:
        name = path.relative_to(HERE)
        if check:
            print(f"sdk/python/{name} is old: run sdk/python/generate.py", file=sys.stderr)
        elif path in extra:
            path.unlink()
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(files[path])
            print(f"wrote {name}")
    return 1 if check and old else 0


if __name__ == "__main__":
    sys.exit(main())
