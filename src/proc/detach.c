#include "proc/detach.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/macro.h"

/* Our environment with the additions; a variable that is added replaces ours. The strings are
 * borrowed. */
static const char **env_join(const char *const *add)
{
        size_t n_ours = 0, n_add = 0, n = 0;
        const char **env;

        while (environ[n_ours])
                n_ours++;
        while (add && add[n_add])
                n_add++;
        env = xcalloc(n_ours + n_add + 1, sizeof(*env));
        for (size_t i = 0; i < n_ours; i++) {
                size_t name = strcspn(environ[i], "=") + 1, k = 0;

                while (k < n_add && strncmp(environ[i], add[k], name) != 0)
                        k++;
                if (k == n_add)
                        env[n++] = environ[i];
        }
        for (size_t k = 0; k < n_add; k++)
                env[n++] = add[k];
        return env;
}

/* stdin is empty, stdout and stderr are the log, nothing else is inherited. */
static int actions_fill(posix_spawn_file_actions_t *fa, const char *log_path)
{
        int r = posix_spawn_file_actions_addopen(fa, 0, "/dev/null", O_RDONLY, 0);

        if (r == 0)
                r = posix_spawn_file_actions_addopen(fa, 1, log_path, O_WRONLY | O_CREAT | O_APPEND,
                                                     0600);
        if (r == 0)
                r = posix_spawn_file_actions_adddup2(fa, 1, 2);
        if (r == 0)
                r = posix_spawn_file_actions_addclosefrom_np(fa, 3);
        return r;
}

/* A fresh session, no blocked signals and no ignored ones: a shell's `nohup` or our own SIG_IGN
 * must not leak into a server that will start agents. */
static int attr_fill(posix_spawnattr_t *attr)
{
        sigset_t none, all;

        (void) sigemptyset(&none);
        (void) sigfillset(&all);
        (void) posix_spawnattr_setsigmask(attr, &none);
        (void) posix_spawnattr_setsigdefault(attr, &all);
        return posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                      POSIX_SPAWN_SETSIGDEF);
}

int detach_spawn(const struct detach_spec *spec, pid_t *ret, struct error *err)
{
        _cleanup_free_ const char **env = env_join(spec->env_add);
        posix_spawn_file_actions_t fa;
        posix_spawnattr_t attr;
        pid_t pid;
        int r;

        (void) posix_spawn_file_actions_init(&fa);
        (void) posix_spawnattr_init(&attr);
        r = actions_fill(&fa, spec->log_path);
        if (r == 0)
                r = attr_fill(&attr);
        if (r == 0)
                r = posix_spawn(&pid, spec->argv[0], &fa, &attr, (char *const *) spec->argv,
                                (char *const *) env);
        (void) posix_spawn_file_actions_destroy(&fa);
        (void) posix_spawnattr_destroy(&attr);
        if (r != 0)
                return error_set(err, ERR_SYSTEM, r, "start '%s' with log '%s'", spec->argv[0],
                                 spec->log_path);
        *ret = pid;
        return 0;
}
