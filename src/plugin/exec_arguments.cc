#include "plugin/exec_arguments.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace cohort {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 6> kValues = {"file", "folder", "task_id", "group", "token", "attempt"};
constexpr std::array<std::string_view, 3> kObjects = {"parameters", "payload", "context"};

Error invalid(std::string message) { return Error{ErrorCode::kInvalid, std::move(message)}; }

Error bad_argument(std::string_view argument, const std::string& why) {
  return invalid("the argument '" + std::string(argument) + "' cannot be understood: " + why);
}

std::vector<std::string> split_at_dots(std::string_view text) {
  std::vector<std::string> names;
  for (;;) {
    const std::size_t dot = text.find('.');
    names.emplace_back(text.substr(0, dot));
    if (dot == std::string_view::npos) return names;
    text.remove_prefix(dot + 1);
  }
}

bool is_place_of_a_step(const std::vector<std::string>& names) {
  if (std::ranges::any_of(names, &std::string::empty)) return false;
  return std::ranges::count(names.size() == 1 ? std::span<const std::string_view>(kValues)
                                              : std::span<const std::string_view>(kObjects),
                            names.front()) > 0;
}

}  // namespace

Result<ExecArguments> ExecArguments::parse(const std::vector<std::string>& templates) {
  ExecArguments all;
  for (const std::string& text : templates) {
    Result<Argument> argument = parse_one(text);
    if (!argument) return bad_argument(text, argument.error().message);
    all.arguments_.push_back(*std::move(argument));
  }
  return all;
}

Result<ExecArguments::Argument> ExecArguments::parse_one(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return invalid("it has a NUL byte");
  Argument argument;
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char each = text[at];
    const bool is_brace = each == '{' || each == '}';
    const bool is_doubled = is_brace && text.substr(at + 1).starts_with(each);
    if (!is_brace || is_doubled) {
      plain += each;
      if (is_doubled) ++at;
      continue;
    }
    const std::size_t end = text.find('}', at);
    if (each == '}' || end == std::string_view::npos) {
      return invalid("a brace has no other one; write '{{' or '}}' for a brace that is only itself");
    }
    Result<Piece> place = parse_place(text.substr(at + 1, end - at - 1));
    if (!place) return place.error();
    if (!plain.empty()) argument.push_back({.text = std::exchange(plain, {})});
    argument.push_back(*std::move(place));
    at = end;
  }
  if (!plain.empty()) argument.push_back({.text = std::move(plain)});
  return argument;
}

Result<ExecArguments::Piece> ExecArguments::parse_place(std::string_view text) {
  Piece place{.text = std::string(text), .names = split_at_dots(text)};
  if (is_place_of_a_step(place.names)) return place;
  return invalid("no step has a value {" + place.text +
                 "}; there are {file}, {folder}, {task_id}, {group}, {token}, {attempt}, {parameters.NAME}, "
                 "{payload.NAME} and {context.NAME}");
}

Result<std::vector<std::string>> ExecArguments::expand(const json& step) const {
  std::vector<std::string> expanded;
  std::size_t bytes = 0;
  for (const Argument& each : arguments_) {
    Result<std::string> one = expand_one(each, step);
    if (!one) return one.error();
    bytes += one->size() + 1;
    if (bytes > kMaxBytes) {
      return invalid("its arguments have more than " + std::to_string(kMaxBytes) +
                     " bytes; give it long values by its standard input");
    }
    expanded.push_back(*std::move(one));
  }
  return expanded;
}

Result<void> ExecArguments::check_parameters(const json& parameters) const {
  const json step = {{"parameters", parameters}};
  for (const Argument& argument : arguments_) {
    for (const Piece& piece : argument) {
      if (piece.names.empty() || piece.names.front() != "parameters") continue;
      if (Result<std::string> value = value_of(piece, step); !value) return value.error();
    }
  }
  return {};
}

Result<std::string> ExecArguments::expand_one(const Argument& argument, const json& step) {
  std::string expanded;
  for (const Piece& piece : argument) {
    if (piece.names.empty()) {
      expanded += piece.text;
      continue;
    }
    Result<std::string> value = value_of(piece, step);
    if (!value) return value;
    if (expanded.empty() && value->starts_with('-')) {
      return invalid("the value of {" + piece.text +
                     "} begins an argument and begins with a dash: it would be taken for an option");
    }
    expanded += *value;
  }
  return expanded;
}

Result<std::string> ExecArguments::value_of(const Piece& place, const json& step) {
  const json* value = &step;
  for (const std::string& name : place.names) {
    const auto found = value->is_object() ? value->find(name) : value->end();
    if (found == value->end()) return invalid("there is no value for {" + place.text + "}");
    value = &*found;
  }
  if (value->is_null()) return invalid("there is no value for {" + place.text + "}");
  if (value->is_structured()) {
    return invalid("the value of {" + place.text +
                   "} is an object or a list; an argument takes a text, a number or a boolean");
  }
  if (!value->is_string()) return value->dump();
  const std::string& text = value->get_ref<const std::string&>();
  if (text.find('\0') != std::string::npos) return invalid("the value of {" + place.text + "} has a NUL byte");
  return text;
}

}  // namespace cohort
