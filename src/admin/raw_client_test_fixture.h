#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace cohort {

/// A client that sends exactly the bytes it is told to. Waits are bounded: what does not come in half a minute is "".
class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer != 0) setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  ~RawClient() { ::close(socket_); }

  [[nodiscard]] bool is_connected() const { return connected_; }

  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  void finish_sending() const { ::shutdown(socket_, SHUT_WR); }

  /// One response, by its Content-Length; "" when the connection ends before it.
  std::string read_response() {
    std::size_t head = std::string::npos;
    while ((head = received_.find("\r\n\r\n")) == std::string::npos) {
      if (!receive()) return "";
    }
    const std::size_t at = received_.find("Content-Length: ");
    const std::size_t length = at < head ? std::strtoul(received_.c_str() + at + 16, nullptr, 10) : 0;
    while (received_.size() < head + 4 + length) {
      if (!receive()) return "";
    }
    std::string response = received_.substr(0, head + 4 + length);
    received_.erase(0, response.size());
    return response;
  }
  /// Everything until the other side ends it.
  std::string read_all() {
    while (receive()) {
    }
    return std::exchange(received_, {});
  }
  /// Everything up to and including this text; "" when the connection ends before it.
  std::string read_until(std::string_view text) {
    std::size_t at = std::string::npos;
    while ((at = received_.find(text)) == std::string::npos) {
      if (!receive()) return "";
    }
    std::string read = received_.substr(0, at + text.size());
    received_.erase(0, read.size());
    return read;
  }

  std::string ask(std::string_view method, std::string_view path, std::string_view body = {}) {
    send(request(method, path, body));
    return read_response();
  }
  static std::string request(std::string_view method, std::string_view path, std::string_view body = {}) {
    std::string text = std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n";
    if (!body.empty()) {
      text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
    }
    return text + "\r\n" + std::string(body);
  }
  static int status_of(const std::string& response) {
    return response.size() < 12 ? 0 : std::atoi(response.c_str() + 9);
  }
  static std::string body_of(const std::string& response) {
    const std::size_t head = response.find("\r\n\r\n");
    return head == std::string::npos ? "" : response.substr(head + 4);
  }

 private:
  bool receive() {
    pollfd wait{.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, 30'000) <= 0) return false;
    char bytes[16384];
    const ssize_t got = ::recv(socket_, bytes, sizeof(bytes), 0);
    if (got <= 0) return false;
    received_.append(bytes, static_cast<std::size_t>(got));
    return true;
  }

  int socket_;
  bool connected_ = false;
  std::string received_;
};

}  // namespace cohort
