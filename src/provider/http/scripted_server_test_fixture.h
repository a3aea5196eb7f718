#pragma once

// A server on loopback that does what a test tells it: answers, or breaks in one of the ways in which servers break.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cohort/base/mutex.h"

namespace cohort {

inline int bound_socket(std::uint16_t& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (fd < 0 || ::bind(fd, generic, size) != 0 || ::getsockname(fd, generic, &size) != 0) {
    throw std::runtime_error("no port on loopback");
  }
  port = ntohs(address.sin_port);
  return fd;
}

/// A port that nobody listens on, and nobody else can take meanwhile.
class RefusingPort {
 public:
  RefusingPort() : fd_(bound_socket(port_)) {}
  ~RefusingPort() { ::close(fd_); }
  RefusingPort(const RefusingPort&) = delete;
  RefusingPort& operator=(const RefusingPort&) = delete;
  [[nodiscard]] std::string url(const std::string& path = "/") const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }

 private:
  std::uint16_t port_ = 0;
  int fd_;
};

/// A certificate for `name`, signed by itself, and its file for those who are to trust it.
class Certificate {
 public:
  explicit Certificate(const std::string& name) : key_(EVP_EC_gen("P-256")), x509_(X509_new()) {
    ASN1_INTEGER_set(X509_get_serialNumber(x509_), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509_), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x509_), 3600L * 24 * 365);
    X509_set_version(x509_, 2);
    X509_set_pubkey(x509_, key_);
    X509_NAME* const subject = X509_get_subject_name(x509_);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("cohort test"), -1,
                               -1, 0);
    X509_set_issuer_name(x509_, subject);
    for (const auto& [id, value] : {std::pair(NID_subject_alt_name, name), {NID_basic_constraints, "CA:TRUE"}}) {
      X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, id, value.c_str());
      X509_add_ext(x509_, extension, -1);
      X509_EXTENSION_free(extension);
    }
    X509_sign(x509_, key_, EVP_sha256());
    std::string pattern = (std::filesystem::temp_directory_path() / "cohort_ca_XXXXXX").string();
    const int fd = ::mkstemp(pattern.data());
    FILE* const out = ::fdopen(fd, "w");
    PEM_write_X509(out, x509_);
    std::fclose(out);
    file_ = pattern;
  }
  ~Certificate() {
    std::filesystem::remove(file_);
    X509_free(x509_);
    EVP_PKEY_free(key_);
  }
  Certificate(const Certificate&) = delete;
  Certificate& operator=(const Certificate&) = delete;

  [[nodiscard]] const std::string& file() const { return file_; }
  void use_in(SSL_CTX* context) const {
    SSL_CTX_use_certificate(context, x509_);
    SSL_CTX_use_PrivateKey(context, key_);
  }

 private:
  EVP_PKEY* key_;
  X509* x509_;
  std::string file_;
};

class ScriptedServer {
 public:
  class Connection {
   public:
    Connection(int fd, SSL* tls) : fd_(fd), tls_(tls) {}

    /// The head and body of the next request; empty at the end.
    std::string read_request() {
      for (;;) {
        const std::size_t end = pending_.find("\r\n\r\n");
        if (end != std::string::npos) {
          const std::size_t size = end + 4 + content_length(pending_.substr(0, end));
          if (pending_.size() >= size) {
            std::string request = pending_.substr(0, size);
            pending_.erase(0, size);
            return request;
          }
        }
        if (!read_more()) return {};
      }
    }
    void send(std::string_view text) {
      while (!text.empty()) {
        const auto sent = tls_ != nullptr ? SSL_write(tls_, text.data(), static_cast<int>(text.size()))
                                          : static_cast<int>(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL));
        if (sent <= 0) return;
        text.remove_prefix(static_cast<std::size_t>(sent));
      }
    }
    void answer(const std::string& status, const std::string& body, const std::string& headers = "") {
      send("HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers + "\r\n" +
           body);
    }
    /// Makes the end a reset.
    void reset_at_end() {
      const linger hard{1, 0};
      ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    }
    /// Says no more until the other side has gone.
    void fall_silent() {
      while (read_more()) {
      }
    }

   private:
    bool read_more() {
      char buffer[4096];
      const auto got = tls_ != nullptr ? SSL_read(tls_, buffer, sizeof(buffer))
                                       : static_cast<int>(::recv(fd_, buffer, sizeof(buffer), 0));
      if (got <= 0) return false;
      pending_.append(buffer, static_cast<std::size_t>(got));
      return true;
    }
    static std::size_t content_length(const std::string& head) {
      const std::size_t at = head.find("Content-Length: ");
      return at == std::string::npos ? 0 : static_cast<std::size_t>(std::stoul(head.substr(at + 16)));
    }

    int fd_;
    SSL* tls_;
    std::string pending_;
  };

  /// Returns false to close the connection.
  using Serve = std::function<bool(Connection&, const std::string& request)>;

  explicit ScriptedServer(Serve serve, const Certificate* certificate = nullptr) : serve_(std::move(serve)) {
    if (certificate != nullptr) {
      context_.reset(SSL_CTX_new(TLS_server_method()));
      certificate->use_in(context_.get());
    }
    listener_ = bound_socket(port_);
    ::listen(listener_, 64);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~ScriptedServer() {
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      MutexLock lock(mutex_);
      for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& each : threads_) each.join();
    ::close(listener_);
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  [[nodiscard]] std::string url(const std::string& path = "/", const std::string& host = "127.0.0.1") const {
    return (context_ ? "https://" : "http://") + host + ":" + std::to_string(port_) + path;
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] int connections() const { return connections_.load(); }

 private:
  struct ContextDeleter {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };

  void accept_all() {
    for (;;) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0 && errno == EMFILE) {  // A test has taken all descriptors, and will give them back.
        std::this_thread::yield();
        continue;
      }
      if (fd < 0) return;
      ++connections_;
      {
        MutexLock lock(mutex_);
        open_.push_back(fd);
      }
      threads_.emplace_back([this, fd] { handle(fd); });
    }
  }

  void handle(int fd) {
    // A client that goes while it is being talked to is what tests are about, and OpenSSL writes without MSG_NOSIGNAL.
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    SSL* tls = context_ ? SSL_new(context_.get()) : nullptr;
    if (tls != nullptr) {
      SSL_set_fd(tls, fd);
      if (SSL_accept(tls) <= 0) return end(fd, tls);
    }
    Connection connection(fd, tls);
    for (;;) {
      const std::string request = connection.read_request();
      if (request.empty() || !serve_(connection, request)) break;
    }
    end(fd, tls);
  }

  void end(int fd, SSL* tls) {
    if (tls != nullptr) SSL_free(tls);
    MutexLock lock(mutex_);
    std::erase(open_, fd);
    ::close(fd);
  }

  Serve serve_;
  std::unique_ptr<SSL_CTX, ContextDeleter> context_;
  std::uint16_t port_ = 0;
  int listener_ = -1;
  std::atomic<int> connections_{0};
  std::thread acceptor_;
  std::vector<std::thread> threads_;  // The acceptor's; read after it has ended.
  Mutex mutex_;
  std::vector<int> open_ COHORT_GUARDED_BY(mutex_);
};

}  // namespace cohort
