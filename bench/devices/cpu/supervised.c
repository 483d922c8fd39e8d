/* Runs a program that may do anything, and sees that nothing of it is left: its own group, no network, a few folders, a
 * deadline; daemons too end with it.
 *
 * usage: supervised REPORT DEADLINE_MS FILE_BYTES READABLE WRITABLE PROGRAM [ARGUMENT...]
 * REPORT is a descriptor that gets two lines, none of them the program's to write: what holds it, and how it ended (`exit 3`,
 * `signal 11`, `deadline`), then the milliseconds it took. READABLE and WRITABLE are lists of paths separated by colons;
 * devices stand in the second.
 */
#define _GNU_SOURCE
#include "confine.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

static void write_file(const char *path, const char *text) {
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    if (write(file, text, strlen(text)) < 0) { /* unmapped ids only change what `whoami` prints inside */ }
    close(file);
}

/* New user, network and ipc namespaces, ids mapped to themselves. Returns whether there are any. No pid namespace: a CUDA
 * driver names its threads by their numbers in /proc. */
static int enter_namespaces(void) {
    char map[64];
    unsigned uid = getuid(), gid = getgid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC)) return 0;
    write_file("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "%u %u 1", uid, uid), write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "%u %u 1", gid, gid), write_file("/proc/self/gid_map", map);
    return 1;
}

static void become(int report, char **texts) {
    char words[128];
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    int namespaces = enter_namespaces();
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_NOFILE, 4096);
    limit(RLIMIT_MSGQUEUE, 0);
    limit(RLIMIT_FSIZE, (rlim_t)strtoull(texts[3], NULL, 10));
    int landlock = confine_files(texts[4], texts[5], 1);
    int calls = confine_calls(0, 1);
    int length = snprintf(words, sizeof words, "%s", namespaces ? "namespaces user+net+ipc" : "process");
    if (landlock) length += snprintf(words + length, sizeof words - length, ", Landlock %d", landlock);
    if (calls) length += snprintf(words + length, sizeof words - length, ", seccomp");
    words[length++] = '\n';
    if (write(report, words, length) != length) _exit(119);
    close(report);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(texts[6], texts + 6);
    fprintf(stderr, "%s: %s\n", texts[6], strerror(errno));
    _exit(127);
}

/* Kill the group and everything that was left to us (we are its subreaper), until nothing is. */
static void end_all(pid_t leader) {
    char path[64], line[4096];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    kill(-leader, SIGKILL);
    for (;;) {
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file >= 0) {
            ssize_t size = read(file, line, sizeof line - 1);
            close(file);
            line[size > 0 ? size : 0] = 0;
            for (char *at = line, *end; *at; at = end) {
                long pid = strtol(at, &end, 10);
                if (end == at) break;
                if (pid > 1) kill((pid_t)pid, SIGKILL);
            }
        }
        if (waitpid(-1, NULL, 0) < 0 && errno == ECHILD) return;
    }
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * t.tv_sec + 1e-6 * t.tv_nsec;
}

int main(int count, char **texts) {
    if (count < 7) return 119;
    int report = atoi(texts[1]), status = 0;
    double begin = now_ms(), deadline = begin + atof(texts[2]);
    sigset_t awaited;
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGCHLD), sigaddset(&awaited, SIGTERM), sigaddset(&awaited, SIGINT), sigaddset(&awaited, SIGHUP);
    sigprocmask(SIG_BLOCK, &awaited, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    fcntl(report, F_SETFD, FD_CLOEXEC);
    pid_t leader = fork();
    if (leader < 0) return 119;
    if (leader == 0) become(report, texts);
    const char *how = "deadline";
    while (now_ms() < deadline) {
        double left = deadline - now_ms();
        struct timespec wait = {(time_t)(left / 1e3), (long)(1e6 * (left - 1e3 * (long)(left / 1e3)))};
        int came = sigtimedwait(&awaited, NULL, &wait);
        if (came == SIGCHLD) {
            pid_t ended;
            while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
                if (ended == leader) break;
            if (ended == leader) { how = WIFEXITED(status) ? "exit" : "signal"; break; }
        } else if (came > 0) {
            how = "stopped";
            break;
        }
    }
    double took = now_ms() - begin;
    end_all(leader);
    int code = *how == 'e' ? WEXITSTATUS(status) : *how == 's' && how[1] == 'i' ? WTERMSIG(status) : 0;
    dprintf(report, "%s %d %.3f\n", how, code, took);
    return 0;
}
