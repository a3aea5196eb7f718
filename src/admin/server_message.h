#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/problem.h"
#include "api/url.h"
#include "cohort/base/function.h"

namespace cohort {

/// A request as it came, within the server's limits and from somebody who may ask.
struct ServerRequest {
  std::string method;
  Target target;
  std::vector<std::string> arguments = {};  ///< What stood for the placeholders of its route.
  std::string last_event_id = {};
  std::string body = {};
};

/// A body that is made while it is sent.
///
/// Thread-safety: next() is called again only after its answer; close() from any thread.
class BodyStream {
 public:
  virtual ~BodyStream() = default;
  /// Gives the next piece, or nothing at the end, to `ready`: once, on any thread or right here.
  virtual void next(Function<void(std::optional<std::string>)> ready) = 0;
  /// Nobody reads it any more: a next() that is under way ends soon.
  virtual void close() = 0;
};

struct ServerResponse {
  int status = 200;
  std::string body = {};
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::shared_ptr<BodyStream> stream = {};  ///< Instead of `body`, and the last thing on its connection.

  [[nodiscard]] static ServerResponse of(const Problem& problem) {
    return {.status = problem.status, .body = problem.to_json(), .type = "application/problem+json"};
  }
  [[nodiscard]] static ServerResponse of(const Error& error) { return of(Problem::of(error)); }
};

/// The way back for one request: called once, from any thread. One that is dropped answers 500.
class Respond {
 public:
  explicit Respond(Function<void(ServerResponse)> send) : send_(std::move(send)) {}
  Respond(Respond&& other) noexcept : send_(std::exchange(other.send_, nullptr)) {}
  Respond& operator=(Respond&&) = delete;
  ~Respond() {
    if (send_) (*this)(ServerResponse::of(Error{ErrorCode::kInternal, "the request was given up; try again"}));
  }
  void operator()(ServerResponse response) { std::exchange(send_, nullptr)(std::move(response)); }

 private:
  Function<void(ServerResponse)> send_;
};

}  // namespace cohort
