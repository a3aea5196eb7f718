#include "plugin/step_parameters.h"

namespace cohort {
namespace {

constexpr std::string_view kHead = R"(# The built-in steps

This page is made of the tables that check the parameters of a step; `./dev docs` writes it. A step is an entry of `steps` in a task, or in a
chain of `chains.templates`:

```json
{"plugin": "exec", "parameters": {"program": "thumbnail", "width": 200}, "timeout": "30s", "retry": {"max_retries": 5}}
```

| key of every step | type | default | what it is |
|---|---|---|---|
| `plugin` | text | | The code that runs the step: `exec`, `http`, `sha256`, or a plugin of your program. Required. A step that is only this text has no parameters. |
| `parameters` | object | `{}` | What the plugin is given: see below. |
| `timeout` | duration | `chains.step_timeout` | Time-out of one attempt. |
| `retry` | object | `chains.retry` | `max_retries`, `backoff`, `multiplier`, `max_backoff`, `jitter`. |

A submit checks the parameters of every step. It refuses a task with an unknown parameter, a wrong value, a program or pool that the
configuration does not have, or a `file` that the node may not fetch. The message names the place, for example
`step 2 ('exec'): parameters.program: there is no program 'thumbnial'; did you mean 'thumbnail'?`.

)";

constexpr std::string_view kExecTail =
    R"(All other parameters are for the program: an argument of its configuration may name one (`{parameters.width}`), and the program
reads all of them as JSON from its standard input. A submit refuses a task without a parameter that an argument names.

The program starts without a shell, in an empty folder of its own. `{…}` in its configured arguments stands for a value of the step:
`{file}`, `{folder}`, `{task_id}`, `{group}`, `{token}`, `{attempt}`, `{parameters.NAME}`, `{payload.NAME}`, `{context.NAME}`.

| end of the program | result |
|---|---|
| exit 0 | Success. Its standard output is a JSON object with the outputs, or empty (`output: json`), one text (`text`), or ignored (`ignore`). |
| exit 75, or death by a signal | Retry. |
| any other exit | The task fails. The last lines of its standard error are in the log of the task. |

[Configuration](configuration.md) has the limits of a program: memory, processes, CPU time, output, artifacts.

)";

constexpr std::string_view kHttpTail =
    R"(The path, the values of headers, and texts in the body may contain `{task_id}`, `{group}`, `{token}`, `{parameters.NAME}`,
`{payload.NAME}` and `{context.NAME}`; `{{` and `}}` stand for braces. Without `body`, the body is an object with `task_id`, `group`, `payload`
and `context`; for GET and DELETE there is none.

| answer | result |
|---|---|
| 200 to 299, or a status of `expect` | Success. The context gets `{"response": {"status": 200, "body": …}}`. |
| 429 and 503 | Retry, at the time of `Retry-After` if the answer has one. |
| network error, 408, 425, any other 5xx | Retry, by the retry policy. |
| any other status, redirects included | The task fails. |

)";

constexpr std::string_view kSha256Tail =
    R"(The step computes the SHA-256 checksum of the task's file. Outputs: `sha256` (hexadecimal digits) and `bytes`. A checksum that
differs from `expected` fails the task. A task without a file fails too.
)";

std::string table_of(const std::vector<ParameterInfo>& parameters) {
  std::string out = "| parameter | type | default | what it is |\n|---|---|---|---|\n";
  for (const ParameterInfo& each : parameters) {
    out.append("| `").append(each.name).append("` | ").append(each.type).append(" | ");
    if (!each.initial.empty()) out.append("`").append(each.initial).append("`");
    out.append(" | ").append(each.meaning).append(" |\n");
  }
  return out + "\n";
}

}  // namespace

std::string steps_reference() {
  std::string out(kHead);
  out.append("## exec: run a program\n\n").append(table_of(exec_parameters())).append(kExecTail);
  out.append("## http: call a service\n\n").append(table_of(http_parameters())).append(kHttpTail);
  out.append("## sha256: checksum of the file\n\n").append(table_of(sha256_parameters())).append(kSha256Tail);
  return out;
}

}  // namespace cohort
