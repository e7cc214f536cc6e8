#!/usr/bin/env python3
"""Writes tests/golden/chat_templates/expected.json and tests/golden/jinja_expressions.json: what Jinja, configured as
transformers configures it, makes of the templates beside the first file, and of many small ones.

usage: make_chat_template_goldens.py OUTPUT      (needs: pip install transformers jinja2)
The small ones are in tools/jinja: expressions.txt has one a line, each of which is printed; templates.json whole templates.
"""
import datetime
import json
import pathlib
import sys

import jinja2
import transformers
from transformers.utils.chat_template_utils import _compile_jinja_template

ROOT = pathlib.Path(__file__).resolve().parents[1]
REFERENCE = f"transformers {transformers.__version__}, jinja2 {jinja2.__version__}"


def message(role, content, **more):
    return {"role": role, "content": content, **more}


def call(name, arguments, id="abc123def"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Weather of a city: <b>now</b> & \"soon\", it's \u00e0 la carte",
    "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "A city,\nlike Z\u00fcrich"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "days": {"type": ["integer", "null"], "default": 3, "nullable": True}}}}}
SEARCH = {"type": "function", "function": {
    "name": "search", "description": "", "strict": True, "parameters": {"type": "object", "properties": {
        "filters": {"type": "array", "items": {"type": "object", "required": ["field"], "properties": {
            "field": {"type": "string"}, "value": {"anyOf": [{"type": "number"}, {"type": "string"}]},
            "tags": {"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "boolean"}]}}}}},
        "limit": {"type": "integer", "description": "At most", "default": 1e3},
        "options": {"type": "object", "default": {"deep": {"er": [1, 2.5, -0.0, 1e-7, 1e16, True, None]}}}}}}}
CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}}}

U, A, S = message("user", "Hi there"), message("assistant", "Hello!"), message("system", " Be brief. ")
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

VARIABLE_SETS = {
    "user": {"messages": [U], "add_generation_prompt": True},
    "no_prompt": {"messages": [U, A]},
    "system": {"messages": [S, U], "add_generation_prompt": True},
    "turns": {"messages": [S, U, A, message("user", "And?"), message("assistant", "  So.\n")], "add_generation_prompt": False},
    "two_systems": {"messages": [S, message("system", "Second."), U], "add_generation_prompt": True},
    "empty": {"messages": [], "add_generation_prompt": True},
    "empty_with_tools": {"messages": [], "tools": [CLOCK], "add_generation_prompt": True},
    "same_role_twice": {"messages": [U, U], "add_generation_prompt": True},
    "unknown_role": {"messages": [message("narrator", "Once upon a time"), U], "add_generation_prompt": True},
    "developer": {"messages": [message("developer", "Do as told."), U], "add_generation_prompt": True},
    "no_content": {"messages": [U, message("assistant", None)], "add_generation_prompt": True},
    "missing_content": {"messages": [{"role": "user"}], "add_generation_prompt": True},
    "number_content": {"messages": [message("user", 42)], "add_generation_prompt": True},
    "unicode": {"messages": [message("user", "\u4f60\u597d \U0001f600\U0001f469\u200d\U0001f467 e\u0301 \u05e9\u05dc\u05d5\u05dd \u00a0\u3000"), A], "add_generation_prompt": True},
    "html": {"messages": [message("user", "<script>alert('x' & \"y\")</script> &amp;"), message("assistant", "<b>ok</b>")], "add_generation_prompt": True},
    "white_space": {"messages": [message("system", "\n\tindent\n"), message("user", "  a  \n\n"), message("assistant", "\r\nb\x0b\x0c"), message("user", "\u2028c\u0085")], "add_generation_prompt": True},
    "looks_like_template": {"messages": [message("user", "{{ 7 * 7 }}{% raw %}{# x #}")], "add_generation_prompt": True},
    "control_words": {"messages": [message("system", "<|im_end|><|eot_id|>"), message("user", "<|im_start|>system\n[INST]</s><end_of_turn>")], "add_generation_prompt": True},
    "parts": {"messages": [message("user", [{"type": "text", "text": " look: "}, {"type": "image"}, {"type": "text", "text": "!"}])], "add_generation_prompt": True},
    "system_parts": {"messages": [message("system", [{"type": "text", "text": "Parts."}]), U], "add_generation_prompt": True},
    "tools": {"messages": [S, U], "tools": [WEATHER, SEARCH, CLOCK], "add_generation_prompt": True},
    "tools_in_system": {"messages": [S, U], "tools": [WEATHER], "tools_in_user_message": False, "add_generation_prompt": True},
    "builtin_tools": {"messages": [U, message("assistant", "", tool_calls=[call("brave_search", {"query": "a b", "n": 2})]), message("ipython", {"ok": [1]})],
                      "builtin_tools": ["brave_search", "code_interpreter"], "add_generation_prompt": True},
    "tool_call": {"messages": [U, message("assistant", "", tool_calls=[call("get_weather", {"city": "Z\u00fcrich", "days": 2})])], "tools": [WEATHER]},
    "tool_round": {"messages": [S, U, message("assistant", None, tool_calls=[call("get_weather", {"city": "\u6771\u4eac <&>'\""})]),
                                message("tool", "{\"t\": 21.5}", tool_call_id="abc123def", name="get_weather"), message("assistant", "It is 21.5."),
                                message("user", "Thanks")], "tools": [WEATHER], "add_generation_prompt": True},
    "two_calls": {"messages": [U, message("assistant", "Both.", tool_calls=[call("clock", {}), call("search", {"filters": [{"field": "a", "value": 1.0}, {}], "limit": 1e20}, "987654321")]),
                               message("tool", "12:00", tool_call_id="abc123def"), message("tool", "[]", tool_call_id="987654321")], "tools": [CLOCK, SEARCH], "add_generation_prompt": True},
    "arguments_as_text": {"messages": [U, message("assistant", None, tool_calls=[call("clock", "{\"zone\": \"UTC\"}")]), message("tool", "12:00", tool_call_id="abc123def")], "add_generation_prompt": True},
    "short_call_id": {"messages": [U, message("assistant", None, tool_calls=[call("clock", {}, "short")])], "tools": [CLOCK]},
    "call_without_id": {"messages": [U, message("assistant", None, tool_calls=[{"type": "function", "function": {"name": "clock", "arguments": {}}}])]},
    "result_without_call": {"messages": [U, message("tool", "lost")], "add_generation_prompt": True},
    "structured_result": {"messages": [U, message("assistant", None, tool_calls=[call("clock", {})]), message("tool", {"t": [1, {"u": 0.1}], "n": None}, tool_call_id="abc123def")], "add_generation_prompt": True},
    "thinking": {"messages": [U, message("assistant", "<think>\nHm.\n</think>\n\nHello!"), message("user", "More")], "add_generation_prompt": True},
    "thinking_last": {"messages": [U, message("assistant", "<think>\nHm.\n</think>\n\nHello!")]},
    "reasoning_content": {"messages": [U, message("assistant", "Yes.", reasoning_content="\nLet me see\n")]},
    "thinking_field": {"messages": [U, message("assistant", "Yes.", thinking="Let me see")]},
    "thinking_and_call": {"messages": [U, message("assistant", None, thinking="A clock?", reasoning_content="A clock?", tool_calls=[call("clock", {})]),
                                       message("tool", "12:00", tool_call_id="abc123def")], "tools": [CLOCK], "add_generation_prompt": True},
    "no_thinking": {"messages": [U], "enable_thinking": False, "thinking": False, "add_generation_prompt": True},
    "tool_response_in_user": {"messages": [U, message("user", "<tool_response>\n1\n</tool_response>")], "add_generation_prompt": True},
    "names": {"messages": [message("user", "Who?", name="eve"), message("assistant", "Me.", name=None)], "add_generation_prompt": True},
    "channel_in_content": {"messages": [U, message("assistant", "<|channel|>final<|message|>x")]},
    "effort": {"messages": [U], "reasoning_effort": "high", "model_identity": "I am {{ x }}", "add_generation_prompt": True},
    "date": {"messages": [U], "date_string": "29 February 2028", "default_system_message": "Hm.", "add_generation_prompt": True},
    "system_with_tools": {"messages": [message("system", "S", tools="[{\"name\": \"f\"}]"), U], "add_generation_prompt": True},
}


def template_line(source, problem):
    """The line of the template that a problem of Jinja belongs to, or None."""
    if isinstance(problem, jinja2.TemplateSyntaxError):
        return problem.lineno
    traceback, line = problem.__traceback__, None
    while traceback:
        if traceback.tb_frame.f_code.co_filename in ("<template>", "<unknown>"):
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def render(source, variables):
    try:
        return {"text": _compile_jinja_template(source).render(**variables)}
    except Exception as problem:  # whatever Jinja, Python or the template raises is an answer here
        raised = type(problem).__name__ == "TemplateError" and "raise_exception" in source
        return {"error": type(problem).__name__, "message": str(problem), "line": template_line(source, problem),
                **({"raised": True} if raised else {})}


def chat_templates():
    variables = {id: {**TOKENS, **given} for id, given in VARIABLE_SETS.items()}
    folder = ROOT / "tests/golden/chat_templates"
    templates = {path.stem: {id: render(path.read_text(), given) for id, given in variables.items()}
                 for path in sorted(folder.glob("*.jinja"))}
    return {"reference": REFERENCE, "variables": variables, "templates": templates}


def small_templates():
    """Their sources, and the variables that they see."""
    folder = ROOT / "tools/jinja"
    printed = ["{{ " + line + " }}" for line in (folder / "expressions.txt").read_text().split("\n")[:-1]]
    return printed + json.loads((folder / "templates.json").read_text()), json.loads((folder / "variables.json").read_text())


def expressions():
    sources, variables = small_templates()
    rows = [[source, render(source, variables)] for source in sources]
    # Addresses of objects are nobody's to copy.
    rows = [row for row in rows if " at 0x" not in row[1].get("text", "")]
    return {"reference": REFERENCE, "variables": variables, "rows": rows}


def write(path, golden):
    path.parent.mkdir(parents=True, exist_ok=True)
    # One row a line: differences stay readable.
    text = json.dumps(golden, ensure_ascii=True, indent=1)
    path.write_text(text + "\n")


if __name__ == "__main__":
    output = pathlib.Path(sys.argv[1])
    write(output / "chat_templates/expected.json", chat_templates())
    write(output / "jinja_expressions.json", expressions())
