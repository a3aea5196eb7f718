#pragma once

// A small HTTP server on a free port of loopback, for examples: one thread, one request per connection.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>

class LocalServer {
 public:
  struct Answer {
    int status = 200;
    std::string body{};
    std::string headers{};
  };

  explicit LocalServer(std::function<Answer()> answer) : answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    ::listen(listener_, 64);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  ~LocalServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  [[nodiscard]] const std::string& url() const { return url_; }

 private:
  void serve() {
    for (int fd = -1; (fd = ::accept(listener_, nullptr, nullptr)) >= 0; ::close(fd)) {
      const timeval patience{1, 0};
      ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
      std::string request;
      char buffer[2048];
      while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = ::recv(fd, buffer, sizeof(buffer), 0);
        if (got <= 0) break;
        request.append(buffer, static_cast<std::size_t>(got));
      }
      const Answer answer = answer_();
      const std::string text = "HTTP/1.1 " + std::to_string(answer.status) +
                               " -\r\nConnection: close\r\nContent-Length: " + std::to_string(answer.body.size()) +
                               "\r\n" + answer.headers + "\r\n" + answer.body;
      ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    }
  }

  std::function<Answer()> answer_;
  int listener_ = -1;
  std::string url_;
  std::thread thread_;
};
