"""Chat templates in the formats of the model families, written for these tests."""

from __future__ import annotations

LLAMA2 = """
{%- if messages[0]['role'] == 'system' %}
    {%- set turns = messages[1:] %}{%- set system = '<<SYS>>\n' + messages[0]['content'] + '\n<</SYS>>\n\n' %}
{%- else %}
    {%- set turns = messages %}{%- set system = '' %}
{%- endif %}
{%- for message in turns %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('user and assistant must take turns') }}
    {%- endif %}
    {%- if message['role'] == 'user' %}
        {{- bos_token + '[INST] ' + (system if loop.first else '') + message['content'].strip() + ' [/INST]' }}
    {%- else %}
        {{- ' ' + message['content'].strip() + ' ' + eos_token }}
    {%- endif %}
{%- endfor %}"""

LLAMA31 = """
{{- bos_token }}
{%- set date_string = date_string if date_string is defined else '26 Jul 2024' %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content']|trim %}{%- set messages = messages[1:] %}
{%- else %}
    {%- set system = '' %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\n\n' }}
{%- if tools is not none %}{{- 'Environment: ipython\n' }}{% endif %}
{{- 'Today Date: ' + date_string + '\n\n' + system + '<|eot_id|>' }}
{%- for message in messages %}
    {%- if loop.first and tools %}
        {{- '<|start_header_id|>user<|end_header_id|>\n\nFunctions:\n\n' }}
        {%- for tool in tools %}
            {{- tool | tojson(indent=4) }}
            {{- '\n\n' }}
        {%- endfor %}
        {{- message['content'] | trim + '<|eot_id|>' }}
    {%- elif message.role == 'ipython' or message.role == 'tool' %}
        {{- '<|start_header_id|>ipython<|end_header_id|>\n\n' }}
        {%- if message.content is mapping or (message.content is iterable and message.content is not string) %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}{{- raise_exception('one call at a time') }}{% endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\n\n{"name": "' + call.name + '", "parameters": ' }}
        {{- call.arguments | tojson + '}<|eot_id|>' }}
    {%- else %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}
        {{- message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}
"""

MISTRAL = """
{%- set ns = namespace(index=0, last=-1) %}
{%- for message in messages if message.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endfor %}
{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {%- if tools and ns.index == ns.last %}{{- '[AVAILABLE_TOOLS] [' }}
            {%- for tool in tools %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, value in tool.function.items() if key != 'return' %}
                    {{- '"' + key + '": ' }}
                    {%- if value is string %}{{- '"' ~ value ~ '"' }}{%- else %}{{- value | tojson }}{%- endif %}
                    {%- if not loop.last %}{{- ', ' }}{%- endif %}
                {%- endfor %}
                {{- '}}' }}{%- if not loop.last %}{{- ', ' }}{%- endif %}
            {%- endfor %}{{- '][/AVAILABLE_TOOLS]' }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
        {{- '[INST] ' + message.content + '[/INST]' }}
    {%- elif message.role == 'assistant' and message.tool_calls is defined %}
        {{- '[TOOL_CALLS] [' }}
        {%- for call in message.tool_calls %}
            {%- set out = call.function | tojson %}
            {{- out[:-1] + ', "id": "' + call.id + '"}' }}{{- ', ' if not loop.last else ']' + eos_token }}
        {%- endfor %}
    {%- elif message.role == 'assistant' %}
        {{- ' ' + message.content | trim + eos_token }}
    {%- elif message.role == 'tool' %}
        {{- '[TOOL_RESULTS] {"content": ' + message.content|string + '}[/TOOL_RESULTS]' }}
    {%- endif %}
{%- endfor %}"""

QWEN25 = """
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {{- messages[0].content if messages[0].role == 'system' else 'You are a helpful assistant.' }}
    {{- '\n\n# Tools\n\n<tools>' }}
    {%- for tool in tools %}{{- '\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\n</tools><|im_end|>\n' }}
{%- elif messages[0].role != 'system' %}
    {{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}
{%- else %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'assistant' and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}{{- '\n' + message.content }}{%- endif %}
        {%- for call in message.tool_calls %}
            {%- if call.function is defined %}{%- set call = call.function %}{%- endif %}
            {{- '\n<tool_call>\n{"name": "' }}{{- call.name }}{{- '", "arguments": ' }}{{- call.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\n<tool_response>\n' }}{{- message.content }}{{- '\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
"""

QWEN3 = """
{%- set ns = namespace(last=messages|length - 1, searching=true) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == 'user' and message.content is string and not
        (message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.searching = false %}{%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role in ('user', 'system') %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' }}
    {%- elif message.role == 'assistant' %}
        {%- set thoughts = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thoughts = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thoughts = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or thoughts) %}
            {{- '<|im_start|>assistant\n<think>\n' + thoughts.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
        {%- else %}
            {{- '<|im_start|>assistant\n' + content }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {{- '\n' if loop.first and content or not loop.first }}
            {{- '<tool_call>\n{"name": "' ~ call.function.name ~ '", "arguments": ' }}
            {{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\n<tool_response>\n' + content + '\n</tool_response><|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}"""

GEMMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set first = messages[0]['content'] + '\n\n' %}
{%- set rest = messages[1:] %}{% else %}{% set first = '' %}{% set rest = messages %}{% endif %}
{% for message in rest %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('roles must alternate') }}
    {%- endif %}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\n' + (first if loop.first else '') }}
    {%- if message['content'] is string -%}{{ message['content'] | trim }}
    {%- else -%}{% for item in message['content'] if item['type'] == 'text' %}{{ item['text'] | trim }}{% endfor %}
    {%- endif -%}
    {{ '<end_of_turn>\n' }}
{%- endfor -%}
{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"""

PHI3 = """{% for message in messages %}{% if message['role'] in ['system', 'user', 'assistant'] %}
{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}
{%- endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"""

CHATML = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful AI assistant named SmolLM<|im_end|>
' }}{% endif %}{% generation %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endgeneration %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"""

FALCON = """{%- for message in messages -%}
    {%- if loop.index0 > 0 %}{{ '\n' }}{% endif -%}
    {{ message['role']|capitalize }}: {{ message['content'].replace('\r\n', '\n').replace('\n\n', '\n') }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '\nAssistant:' }}{% endif %}"""

ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""

GRANITE = """{%- macro block(role, text) -%}
{{ '<|start_of_role|>' ~ role ~ '<|end_of_role|>' ~ text ~ '<|end_of_text|>\n' }}
{%- endmacro -%}
{%- if messages[0]['role'] == 'system' -%}
    {%- set system = messages[0]['content'] -%}{%- set messages = messages[1:] -%}
{%- else -%}
    {%- set system = 'Knowledge Cutoff Date: April 2024.' -%}
    {%- if documents %}{%- set system = system + ' Use the documents.' -%}{% endif -%}
{%- endif -%}
{{- block('system', system) -}}
{%- if tools -%}{{- block('tools', tools | tojson(indent=2)) -}}{%- endif -%}
{%- for document in documents or [] -%}{{- block('document ' ~ loop.index, document['text']) -}}{%- endfor -%}
{%- for message in messages -%}
    {%- if message.role == 'skip' -%}{%- continue -%}{%- endif -%}
    {{- block(message.role, message.content | default('', true)) -}}
    {%- if loop.last and add_generation_prompt -%}{{- '<|start_of_role|>assistant<|end_of_role|>' -}}{%- endif -%}
{%- endfor -%}"""

TEMPLATES = {
    "llama2": LLAMA2, "llama3.1": LLAMA31, "mistral": MISTRAL, "qwen2.5": QWEN25, "qwen3": QWEN3, "gemma": GEMMA,
    "phi3": PHI3, "chatml": CHATML, "falcon": FALCON, "zephyr": ZEPHYR, "granite": GRANITE,
}  # fmt: skip

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather", "description": "Says the weather at a \"place\", in °C",
            "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
        },
    },
    {"type": "function", "function": {"name": "time", "description": "Says the time", "parameters": {}}},
]  # fmt: skip
USER, ANSWER = {"role": "user", "content": ' Héllo <b>& "you" \n\n'}, {"role": "assistant", "content": " Yes. \n"}
SYSTEM = {"role": "system", "content": "Be brief."}
CALL = {
    "role": "assistant", "content": "",
    "tool_calls": [
        {"id": "abc123def", "type": "function", "function": {"name": "weather", "arguments": {"place": "Zürich"}}},
    ],
}  # fmt: skip
RESULT = {"role": "tool", "content": '{"degrees": 21}', "name": "weather", "tool_call_id": "abc123def"}
THOUGHT = {"role": "assistant", "content": "<think>\nLet me see.\n</think>\n\nIt is 4."}
REASONED = {"role": "assistant", "content": "It is 4.", "reasoning_content": "Let me see."}
CASES: dict[str, dict[str, object]] = {
    "one": {"messages": [USER], "add_generation_prompt": True},
    "turns": {"messages": [SYSTEM, USER, ANSWER, {"role": "user", "content": "And?"}], "add_generation_prompt": True},
    "ended": {"messages": [SYSTEM, USER, ANSWER], "add_generation_prompt": False},
    "continued": {
        "messages": [USER, {"role": "assistant", "content": "It is "}], "add_generation_prompt": False,
        "continue_final_message": True,
    },
    "tools": {"messages": [SYSTEM, USER], "tools": TOOLS, "add_generation_prompt": True},
    "call": {"messages": [USER, CALL, RESULT], "tools": TOOLS, "add_generation_prompt": True},
    "thought": {"messages": [USER, THOUGHT, USER], "add_generation_prompt": True, "enable_thinking": False},
    "reasoned": {"messages": [USER, REASONED], "add_generation_prompt": False},
    "document": {"messages": [USER], "documents": [{"title": "a", "text": "Ünï"}], "add_generation_prompt": True},
}  # fmt: skip
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
