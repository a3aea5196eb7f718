#pragma once

// A TCP proxy on loopback that loses what goes through it.

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <string>
#include <thread>

namespace cohort {

/// Passes connections on to a port. Thread-safety: the modes may be set from any thread.
class FaultyProxy {
 public:
  enum class Mode {
    kPass,
    kCut,         ///< Swallows both ways; connections stay open, as with a cut cable.
    kLoseAnswers  ///< Swallows what the server answers: the write took effect, its answer is lost.
  };

  explicit FaultyProxy(std::uint16_t target)
      : target_(target), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof(address);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      std::perror("proxy");
      std::abort();
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  FaultyProxy(const FaultyProxy&) = delete;
  FaultyProxy& operator=(const FaultyProxy&) = delete;
  ~FaultyProxy() {
    thread_.request_stop();
    thread_.join();
    for (Connection& each : connections_) end(each);
    ::close(listener_);
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  void set(Mode mode) { mode_ = mode; }
  /// Passes again. Connections that have a hole are reset.
  void heal() {
    mode_ = Mode::kPass;
    resets_ = true;
  }

 private:
  struct Connection {
    std::array<int, 2> files{};  // The client's, the server's.
    bool is_over = false;
  };

  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  static void end(Connection& connection) {
    constexpr linger kReset{1, 0};
    for (const int file : connection.files) {
      ::setsockopt(file, SOL_SOCKET, SO_LINGER, &kReset, sizeof(kReset));
      ::close(file);
    }
    connection.is_over = true;
  }

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<pollfd> files = {{listener_, POLLIN, 0}};
      for (const Connection& each : connections_) {
        for (const int file : each.files) files.push_back({file, POLLIN, 0});
      }
      ::poll(files.data(), files.size(), 10);
      std::size_t at = 1;
      for (Connection& each : connections_) {
        for (std::size_t side = 0; side < 2; ++side, ++at) {
          if (!each.is_over && files[at].revents != 0) pass(each, side);
        }
      }
      if (resets_.exchange(false)) {
        for (Connection& each : connections_) {
          if (!each.is_over) end(each);
        }
      }
      connections_.remove_if([](const Connection& each) { return each.is_over; });
      if ((files[0].revents & POLLIN) != 0) accept();
    }
  }

  void pass(Connection& connection, std::size_t side) {
    std::array<char, 65536> bytes{};
    const ssize_t got = ::recv(connection.files[side], bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got <= 0) return end(connection);
    const Mode mode = mode_;
    if (mode == Mode::kCut || (mode == Mode::kLoseAnswers && side == 1)) return;
    ssize_t sent = 0;
    while (sent < got) {
      const ssize_t some =
          ::send(connection.files[1 - side], bytes.data() + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
      if (some <= 0) return end(connection);
      sent += some;
    }
  }

  void accept() {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(target_);
    Connection connection{{client, server}, false};
    if (::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return end(connection);
    constexpr int kOn = 1;
    for (const int file : connection.files) ::setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof(kOn));
    connections_.push_back(connection);
  }

  const std::uint16_t target_;
  const int listener_;
  std::uint16_t port_ = 0;
  std::atomic<Mode> mode_{Mode::kPass};
  std::atomic<bool> resets_{false};
  std::list<Connection> connections_;  // Of the thread.
  std::jthread thread_;
};

}  // namespace cohort
