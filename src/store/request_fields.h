#pragma once

#include <string>

#include "cohort/store/chain_task.h"

namespace cohort {

/// A field of a request (NewTask): its name in JSON and in stored text, and who goes by it.
struct RequestField {
  /// A store keeps it in a column of its own, or in the text of the request.
  enum class Home : std::uint8_t { kColumn, kText };
  /// Whether it is a part of the request's hash. kIfSet: only where it is set, so that requests from before the field
  /// existed keep their hash.
  enum class Hashed : std::uint8_t { kNever, kAlways, kIfSet };

  const char* name;
  Home home;
  Hashed hashed;
  std::size_t most_characters = 0;  ///< Of a text; 0: another rule.
};

/// A text that is JSON.
template <class Text>
struct JsonText {
  Text& text;
};
template <class Text>
JsonText(Text&) -> JsonText<Text>;

/// Calls `visit(field, member)` for every field of a request. JSON, stored text, the hash and the limits of texts are
/// made of this list: a new field is a line here, a member of NewTask and a line of the API's schema.
template <class Request, class Visitor>
void visit_request(Request& request, Visitor&& visit) {
  using Home = RequestField::Home;
  using Hashed = RequestField::Hashed;
  visit(RequestField{"id", Home::kColumn, Hashed::kNever, NewTask::kMaxIdLength}, request.id);
  visit(RequestField{"group", Home::kColumn, Hashed::kAlways, NewTask::kMaxGroupLength}, request.group);
  visit(RequestField{"session", Home::kText, Hashed::kAlways, 256}, request.session);
  visit(RequestField{"file", Home::kText, Hashed::kAlways, 4096}, request.file);
  visit(RequestField{"payload", Home::kColumn, Hashed::kAlways}, JsonText{request.payload});
  visit(RequestField{"steps", Home::kText, Hashed::kAlways}, request.steps);
  visit(RequestField{"deadline", Home::kText, Hashed::kAlways}, request.deadline);
  visit(RequestField{"priority", Home::kColumn, Hashed::kAlways}, request.priority);
  visit(RequestField{"tags", Home::kColumn, Hashed::kAlways}, request.tags);
  visit(RequestField{"start_at", Home::kText, Hashed::kAlways}, request.start_at);
  visit(RequestField{"pending", Home::kText, Hashed::kAlways}, request.pending);
  visit(RequestField{"deadline_at", Home::kText, Hashed::kIfSet}, request.deadline_at);
  visit(RequestField{"chain", Home::kText, Hashed::kIfSet, 256}, request.chain);
  visit(RequestField{"parameters", Home::kText, Hashed::kIfSet}, JsonText{request.parameters});
  visit(RequestField{"idempotency_key", Home::kColumn, Hashed::kNever, 256}, request.idempotency_key);
}

}  // namespace cohort
