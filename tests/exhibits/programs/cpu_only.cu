// No kernel at all: runs where there is no GPU; leaves a process behind, if it can, and looks for what is not its own.
#include <cstdio>
#include <cstdlib>
#include <sys/socket.h>
#include <unistd.h>

int main() {
  if (fork() == 0) {
    setsid();
    sleep(300);
  }
  std::printf("passwd %s, network %s, home %s\n", std::fopen("/etc/passwd", "r") ? "read" : "refused",
              socket(AF_INET, SOCK_STREAM, 0) >= 0 ? "open" : "refused", std::getenv("HOME"));
  FILE* own = std::fopen("own.txt", "w");
  return own ? 0 : 5;
}
