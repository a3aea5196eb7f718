#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <deque>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cohort/base/assert.h"
#include "cohort/base/mutex.h"

namespace cohort {

/// A node that answers what a test says, on a port of its own: one thread, one connection at a time.
///
///     ScriptedNode node;
///     node.on("GET /v1/node", 200, R"({"node": "n"})");
class ScriptedNode {
 public:
  struct Request {
    std::string line{};  ///< "GET /v1/tasks?limit=20"
    std::string head{};
    std::string body{};
  };
  struct Answer {
    int status = 200;
    std::string body{};
    std::string type{};               ///< Empty: JSON, or a problem from 400 on.
    bool stays_open = false;          ///< Until the client leaves.
    std::function<void()> then = {};  ///< Once it is sent.
  };

  ScriptedNode() {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    COHORT_ASSERT(::bind(listener_, generic, length) == 0, "a free port can be bound");
    COHORT_ASSERT(::listen(listener_, 16) == 0, "a bound socket can listen");
    COHORT_ASSERT(::getsockname(listener_, generic, &length) == 0, "a bound socket has a name");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ScriptedNode(const ScriptedNode&) = delete;
  ScriptedNode& operator=(const ScriptedNode&) = delete;
  ~ScriptedNode() { stop(); }

  /// No node is there any more.
  void stop() {
    if (!thread_.joinable()) return;
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }

  /// Answers in turn; the last one again and again. `line` is the method and the path, with its query.
  void on(const std::string& line, int status, const std::string& body) { on(line, {.status = status, .body = body}); }
  void on(const std::string& line, Answer answer) {
    const MutexLock lock(mutex_);
    answers_[line].push_back(std::move(answer));
  }

  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] std::vector<Request> requests() const {
    const MutexLock lock(mutex_);
    return requests_;
  }
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const Request& each : requests()) lines.push_back(each.line);
    return lines;
  }
  [[nodiscard]] nlohmann::json body(std::size_t index) const {
    return nlohmann::json::parse(requests().at(index).body);
  }

 private:
  void serve() {
    for (;;) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      const Answer answer = answer_to(read_request(connection));
      send_answer(connection, answer);
      if (answer.then) answer.then();
      if (answer.stays_open) wait_for_end(connection);
      ::close(connection);
    }
  }

  static Request read_request(int connection) {
    std::string text;
    std::size_t wanted = std::string::npos;
    std::string piece(64U << 10U, '\0');
    Request request;
    while (text.size() < wanted) {
      const ssize_t got = ::recv(connection, piece.data(), piece.size(), 0);
      if (got <= 0) break;
      text.append(piece, 0, static_cast<std::size_t>(got));
      const std::size_t end = text.find("\r\n\r\n");
      if (wanted != std::string::npos || end == std::string::npos) continue;
      request.head = text.substr(0, end);
      request.line = request.head.substr(0, request.head.find(" HTTP/"));
      wanted = end + 4 + content_length(request.head);
    }
    if (wanted != std::string::npos) request.body = text.substr(request.head.size() + 4);
    return request;
  }

  static std::size_t content_length(std::string head) {
    std::ranges::transform(head, head.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const std::size_t at = head.find("content-length:");
    return at == std::string::npos ? 0 : std::stoul(head.substr(at + 15));
  }

  Answer answer_to(Request request) {
    const MutexLock lock(mutex_);
    const auto found = answers_.find(request.line);
    const std::string line = request.line;
    requests_.push_back(std::move(request));
    if (found == answers_.end()) return {.status = 500, .body = R"({"detail": "not scripted: )" + line + "\"}"};
    Answer answer = found->second.front();
    if (found->second.size() > 1) found->second.pop_front();
    return answer;
  }

  static void send_answer(int connection, const Answer& answer) {
    const std::string type = !answer.type.empty()   ? answer.type
                             : answer.status >= 400 ? "application/problem+json"
                                                    : "application/json";
    const bool is_stream = type == "text/event-stream";
    const std::string length = is_stream ? "" : "Content-Length: " + std::to_string(answer.body.size()) + "\r\n";
    const std::string text = "HTTP/1.1 " + std::to_string(answer.status) + " Said\r\nContent-Type: " + type + "\r\n" +
                             length + "Connection: close\r\n\r\n" + answer.body;
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t now = ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (now <= 0) return;
      sent += static_cast<std::size_t>(now);
    }
  }

  static void wait_for_end(int connection) {
    char byte = 0;
    while (::recv(connection, &byte, 1, 0) > 0) {
    }
  }

  int listener_ = -1;
  std::uint16_t port_ = 0;
  mutable Mutex mutex_;
  std::map<std::string, std::deque<Answer>> answers_ COHORT_GUARDED_BY(mutex_);
  std::vector<Request> requests_ COHORT_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace cohort
