#include "plugin/step_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cohort/base/percent.h"

namespace cohort {
namespace {

struct Part {
  std::string_view text;  // Of a placeholder, what is between its braces.
  bool is_placeholder = false;
};

Error invalid(std::string text) { return {ErrorCode::kInvalid, std::move(text)}; }

bool is_known(std::string_view name) {
  if (name == "task_id" || name == "group" || name == "token") return true;
  for (const std::string_view tree : {"parameters.", "payload.", "context."}) {
    if (name.starts_with(tree)) return name.size() > tree.size();
  }
  return false;
}

Error no_placeholder(std::string_view text) {
  constexpr std::size_t kShown = 40;
  const std::string shown(text.substr(0, kShown));
  return invalid("'" + shown +
                 "' begins with no placeholder; there are {task_id}, {group}, {token}, {parameters.…}, {payload.…} and "
                 "{context.…}, and a brace is written {{ or }}");
}

Result<std::vector<Part>> parts_of(std::string_view text) {
  std::vector<Part> parts;
  while (!text.empty()) {
    const std::size_t brace = std::min(text.find_first_of("{}"), text.size());
    if (brace != 0) {
      parts.push_back({text.substr(0, brace)});
      text.remove_prefix(brace);
    } else if (text.size() > 1 && text[0] == text[1]) {
      parts.push_back({text.substr(0, 1)});
      text.remove_prefix(2);
    } else {
      const std::size_t end = text.find('}');
      if (end == std::string_view::npos || end == 0 || !is_known(text.substr(1, end - 1))) return no_placeholder(text);
      parts.push_back({text.substr(1, end - 1), true});
      text.remove_prefix(end + 1);
    }
  }
  return parts;
}

// Null: there is none.
const nlohmann::json* find_deep(const nlohmann::json& root, std::string_view path) {
  const nlohmann::json* value = &root;
  for (;;) {
    if (!value->is_object()) return nullptr;
    const std::size_t dot = path.find('.');
    const auto found = value->find(std::string(path.substr(0, dot)));
    if (found == value->end()) return nullptr;
    value = &*found;
    if (dot == std::string_view::npos) return value;
    path.remove_prefix(dot + 1);
  }
}

Result<std::string> value_of(std::string_view name, const StepContext& step) {
  if (name == "task_id") return step.task_id();
  if (name == "group") return step.group();
  if (name == "token") return step.idempotency_token();
  const std::size_t dot = name.find('.');
  const nlohmann::json& tree = name.starts_with("parameters") ? step.parameters()
                               : name.starts_with("payload")  ? step.payload()
                                                              : step.context();
  const nlohmann::json* const value = find_deep(tree, name.substr(dot + 1));
  if (value == nullptr) return invalid("there is no value for {" + std::string(name) + "}");
  if (value->is_string()) return value->get<std::string>();
  if (value->is_number() || value->is_boolean()) return value->dump();
  return invalid("{" + std::string(name) + "} is neither a string nor a number, true or false");
}

Result<std::string> fill_in(std::string_view text, const StepContext& step, TextEncoding encoding, std::size_t& left) {
  const Result<std::vector<Part>> parts = parts_of(text);
  if (!parts) return parts.error();
  std::string filled;
  for (const Part& part : *parts) {
    std::string piece(part.text);
    if (part.is_placeholder) {
      const Result<std::string> value = value_of(part.text, step);
      if (!value) return value.error();
      piece = encoding == TextEncoding::kPercent ? percent_encode(*value) : *value;
    }
    if (piece.size() > left) {
      return invalid("with its values filled in it has more than " + std::to_string(kMaxFilledBytes) + " bytes");
    }
    left -= piece.size();
    filled += piece;
  }
  return filled;
}

// Calls `visit(string)` for every string in `value`; an error has its place in front, as in ".list[2].name: …".
template <class Json, class Visit>
Result<void> for_each_text(Json& value, const Visit& visit) {
  if (value.is_string()) return visit(value);
  std::size_t index = 0;
  if (value.is_array()) {
    for (auto& each : value) {
      if (auto done = for_each_text(each, visit); !done)
        return at_place("[" + std::to_string(index) + "]", done.error());
      ++index;
    }
  } else if (value.is_object()) {
    for (auto each = value.begin(); each != value.end(); ++each) {
      if (auto done = for_each_text(*each, visit); !done) return at_place("." + each.key(), done.error());
    }
  }
  return {};
}

}  // namespace

Error at_place(std::string_view place, const Error& error) {
  const bool is_deeper = error.message.starts_with('.') || error.message.starts_with('[');
  return {error.code, std::string(place) + (is_deeper ? "" : ": ") + error.message};
}

Result<void> check_step_text(std::string_view text) {
  const Result<std::vector<Part>> parts = parts_of(text);
  if (!parts) return parts.error();
  return {};
}

Result<std::string> fill_in(std::string_view text, const StepContext& step, TextEncoding encoding) {
  std::size_t left = kMaxFilledBytes;
  return fill_in(text, step, encoding, left);
}

Result<void> check_step_texts(const nlohmann::json& value) {
  return for_each_text(value,
                       [](const nlohmann::json& text) { return check_step_text(text.get_ref<const std::string&>()); });
}

Result<nlohmann::json> fill_in_all(const nlohmann::json& value, const StepContext& step) {
  nlohmann::json filled = value;
  std::size_t left = kMaxFilledBytes;
  const Result<void> done = for_each_text(filled, [&](nlohmann::json& text) -> Result<void> {
    Result<std::string> each = fill_in(text.get_ref<const std::string&>(), step, TextEncoding::kPlain, left);
    if (!each) return each.error();
    text = *std::move(each);
    return {};
  });
  if (!done) return done.error();
  return filled;
}

}  // namespace cohort
