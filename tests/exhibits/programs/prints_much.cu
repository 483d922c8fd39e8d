// A flood on stdout.
#include <cstdio>

int main() {
  for (int i = 0; i < 1000000; i++) std::printf("line %d of a flood\n", i);
  return 0;
}
