/* From a spec to a child: its environment and the words of a failure. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "core/process_impl.h"

#define TERM_DEFAULT "TERM=xterm-256color"

/* What opens our own door is not handed to whoever runs here. */
static const char *const secrets[] = { "SANDBOX_AGENT_TOKEN" };

/* Does "KEY=value" set this key? */
static bool sets(const char *var, const char *key, size_t key_len)
{
        return strncmp(var, key, key_len) == 0 && var[key_len] == '=';
}

static bool is_secret(const char *var)
{
        for (size_t i = 0; i < ARRAY_LEN(secrets); i++)
                if (sets(var, secrets[i], strlen(secrets[i])))
                        return true;
        return false;
}

static bool has(const char *const *env, size_t n, const char *var)
{
        size_t len = strcspn(var, "=");

        for (size_t i = 0; i < n; i++)
                if (sets(env[i], var, len))
                        return true;
        return false;
}

/* Ours, without the secrets and what the spec sets itself; then the spec's. The strings are
 * borrowed: the child has its own once it runs. */
static const char **make_env(const struct process_spec *spec)
{
        size_t n = 0, n_ours = 0;
        const char **env;

        while (environ[n_ours])
                n_ours++;
        env = xcalloc(n_ours + spec->n_env + 2, sizeof(char *));
        for (size_t i = 0; i < n_ours; i++)
                if (!is_secret(environ[i]) && !has(spec->env, spec->n_env, environ[i]))
                        env[n++] = environ[i];
        for (size_t i = 0; i < spec->n_env; i++)
                env[n++] = spec->env[i];
        if (spec->is_tty && !has(env, n, TERM_DEFAULT))
                env[n++] = TERM_DEFAULT;
        return env;
}

static const char **make_argv(const struct process_spec *spec)
{
        const char **argv = xcalloc(spec->n_args + 2, sizeof(char *));

        argv[0] = spec->command;
        for (size_t i = 0; i < spec->n_args; i++)
                argv[i + 1] = spec->args[i];
        return argv;
}

int process_start(struct processes *t, const struct process_spec *spec, struct child_spec how,
                  const struct child_cb *cb, void *arg, struct child **ret, struct error *err)
{
        _cleanup_free_ const char **env = make_env(spec), **argv = make_argv(spec);

        how.argv = argv;
        how.env = env;
        how.cwd = spec->cwd;
        if (supervisor_spawn(t->sup, &how, cb, arg, ret, err) == 0)
                return 0;
        if (err)
                err->kind = ERR_UPSTREAM;
        return error_wrap(err, "failed to spawn process");
}
