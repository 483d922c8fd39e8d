/* Runs a program behind Landlock and a seccomp filter, as far as this kernel has them.
 *
 * usage: confined READABLE WRITABLE PROGRAM [ARGUMENT...]      the first two are lists of paths, separated by colons
 */
#define _GNU_SOURCE
#include "confine.h"

int main(int count, char **texts) {
    if (count < 4) return 119;
    confine_files(texts[1], texts[2], 1);
    confine_calls(0, 0);
    execvp(texts[3], texts + 3);
    fprintf(stderr, "%s: %s\n", texts[3], strerror(errno));
    return 127;
}
