/* Who may come in: tokens, Host and Origin. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

struct cors;
struct option_list;
struct policy;
struct req;
struct secret;

enum { POLICY_TOKENS_MAX = 1024, POLICY_FILE_MAX = 1024 * 1024 };

struct policy *policy_new(void);
struct policy *policy_free(struct policy *p);
/* Everything may be done with it, for ever. */
void policy_add_token(struct policy *p, const char *name, const char *text, size_t len);
/* {"tokens":[{"name","token","scopes":["read","write","admin"],"expires":"RFC 3339"?}]} */
int policy_add_file(struct policy *p, const char *path, struct error *err);
bool policy_is_open(const struct policy *p); /* no token at all */
/* An open server on loopback: browsers on this machine are the danger. Only these names may be in
 * Host, and a foreign Origin may not write or open a WebSocket. */
void policy_guard_loopback(struct policy *p, const char *bind_host,
                           const struct option_list *allowed, const struct cors *cors);

/* The hooks for struct http_policy; arg is the policy. */
bool policy_authenticate(void *arg, struct req *r, bool is_ws, const char **ret_name,
                         unsigned *ret_scopes);
int policy_admit(void *arg, struct req *r, struct error *err);
