/* A tree of processes that is hard to kill: everybody is deaf to polite signals and in a session of its own.
 *
 *   forker refork N    N lines of processes, each of which forks its successor and exits, without end
 *   forker chain N     N processes, each the child of the one before
 *   forker wide N      N children of one parent
 *   forker stopped N   the same, stopped
 *   forker orphans N   N processes whose parent is gone, and no leader
 *
 * Prints "here" once all of them are there. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int up[2];

static void say_up(void) {
    while (write(up[1], "x", 1) != 1) {}
    close(up[1]);
    close(up[0]);
}

static void rest(void) {
    for (;;) pause();
}

static void refork(void) {
    for (;;) {
        setsid();
        pid_t child = fork();
        if (child > 0) _exit(0);
    }
}

static void chain(int left) {
    setsid();
    if (left > 1 && fork() == 0) chain(left - 1);
    say_up();
    rest();
}

static void member(const char *kind) {
    setsid();
    if (!strcmp(kind, "refork")) {
        say_up();
        refork();
    }
    if (!strcmp(kind, "orphans") && fork() > 0) _exit(0);
    if (strcmp(kind, "stopped")) {
        say_up();
        rest();
    }
    /* It is visibly stopped: its parent waits for that. */
    raise(SIGSTOP);
    rest();
}

int main(int argc, char **argv) {
    int count = argc > 2 ? atoi(argv[2]) : 0;
    if (count < 1 || pipe(up)) return 64;
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    const char *kind = argv[1];
    if (!strcmp(kind, "chain")) {
        if (fork() == 0) chain(count);
    } else {
        for (int n = 0; n < count; n++) {
            pid_t child = fork();
            if (child < 0) return 75;
            if (child == 0) member(kind);
            if (!strcmp(kind, "stopped")) waitpid(child, NULL, WUNTRACED);
            if (!strcmp(kind, "orphans")) waitpid(child, NULL, 0);
        }
    }
    close(up[1]);
    char byte;
    for (int n = 0; n < count && strcmp(kind, "stopped"); n++)
        if (read(up[0], &byte, 1) != 1) return 75;
    puts("here");
    fflush(stdout);
    if (!strcmp(kind, "orphans")) return 0;
    rest();
}
