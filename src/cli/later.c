/* Commands that have their place, their options and their help, but that this version does not
 * bring: no run function, so the command line answers with one line. Whoever implements one moves
 * its row to a file of its own; a route with the same `cli` name takes an `api` row over by itself.
 */
#include "base/macro.h"
#include "cli/registry.h"
#include "client/client.h"

/* Nobody reads these values: every row just needs a place of its own. */
union place {
        const char *str;
        bool on;
        int index;
};
enum { PLACES = 8 };
#define AT(i)         ((i) * sizeof(union place))
#define FLAG(i)       OPT_BOOL, AT(i), .flags = OPT_NO_FILE
#define TEXT(i, name) OPT_STR, AT(i), .arg = (name), .flags = OPT_NO_FILE
#define ONE_OF(i, of) OPT_ENUM, AT(i), .arg = "NAME", .names = (of), .flags = OPT_NO_FILE
#define ID(i)         OPT_STR, AT(i), .arg = "ID", .flags = OPT_NO_FILE | OPT_REQUIRED
#define URL(i)        OPT_STR, AT(i), "SANDBOX_AGENT_ENDPOINT", CLIENT_ENDPOINT, .arg = "URL"
#define HOST(i)       OPT_STR, AT(i), "SANDBOX_AGENT_HOST", "127.0.0.1", .arg = "HOST"
#define PORT(i)       OPT_STR, AT(i), "SANDBOX_AGENT_PORT", "2468", .arg = "PORT"
#define ROWS(r)                                                                                    \
        .options = (r), .options_size = ARRAY_LEN(r), .values_size = PLACES * sizeof(union place)

static const char endpoint_doc[] = "server to talk to: http://…, https://… or unix:/path";
static const char agent_version_doc[] = "version of the agent itself";
static const char process_version_doc[] = "version of its ACP program";
static const char reinstall_doc[] = "install again what is there";
static const char home_doc[] = "home directory to look in";
static const char oauth_doc[] = "leave out OAuth tokens";
static const char server_id_doc[] = "id of the ACP connection";

static const char *const package_managers[] = { "apt", "dnf", "apk", NULL };
static const char *const credential_agents[] = { "claude", "codex", "opencode", "amp", NULL };

static const struct option opencode_rows[] = {
        { "host", 'H', HOST(0), .doc = "address of the server" },
        { "port", 'p', PORT(1), .doc = "port of the server" },
        { "session-title", 0, TEXT(2, "TITLE"), .doc = "title of the session to open" },
        { "yolo", 0, FLAG(3), .doc = "let the agent act without asking" },
};
static const struct option install_desktop_rows[] = {
        { "yes", 0, FLAG(0), .doc = "do not ask" },
        { "print-only", 0, FLAG(1), .doc = "show the packages and the command, install nothing" },
        { "package-manager", 0, ONE_OF(2, package_managers),
          .doc = "package manager to use instead of the one found" },
        { "no-fonts", 0, FLAG(3), .doc = "leave out the fonts" },
};
static const struct option install_agent_rows[] = {
        { "all", 0, FLAG(0), .doc = "every known agent" },
        { "reinstall", 'r', FLAG(1), .doc = reinstall_doc },
        { "agent-version", 0, TEXT(2, "VERSION"), .doc = agent_version_doc },
        { "agent-process-version", 0, TEXT(3, "VERSION"), .doc = process_version_doc },
};
static const struct option extract_rows[] = {
        { "agent", 'a', ONE_OF(0, credential_agents),
          .doc = "print the token this agent would use" },
        { "provider", 'p', TEXT(1, "PROVIDER"), .doc = "print this provider's token" },
        { "home-dir", 'd', TEXT(2, "DIR"), .doc = home_doc },
        { "no-oauth", 0, FLAG(3), .doc = oauth_doc },
        { "reveal", 'r', FLAG(4), .doc = "show keys in full" },
};
static const struct option extract_env_rows[] = {
        { "export", 'e', FLAG(0), .doc = "put 'export' before each line" },
        { "home-dir", 'd', TEXT(1, "DIR"), .doc = home_doc },
        { "no-oauth", 0, FLAG(2), .doc = oauth_doc },
};
static const struct option endpoint_rows[] = {
        { "endpoint", 'e', URL(0), .doc = endpoint_doc },
};
static const struct option agents_install_rows[] = {
        { "reinstall", 'r', FLAG(0), .doc = reinstall_doc },
        { "agent-version", 0, TEXT(1, "VERSION"), .doc = agent_version_doc },
        { "agent-process-version", 0, TEXT(2, "VERSION"), .doc = process_version_doc },
        { "endpoint", 'e', URL(3), .doc = endpoint_doc },
};
static const struct option acp_post_rows[] = {
        { "server-id", 0, ID(0), .doc = server_id_doc },
        { "agent", 0, TEXT(1, "AGENT"), .doc = "agent to start with the first message" },
        { "json", 0, TEXT(2, "JSON"), .doc = "the message" },
        { "json-file", 0, TEXT(3, "FILE"), .doc = "file with the message, '-' for stdin" },
        { "endpoint", 'e', URL(4), .doc = endpoint_doc },
};
static const struct option acp_stream_rows[] = {
        { "server-id", 0, ID(0), .doc = server_id_doc },
        { "last-event-id", 0, TEXT(1, "N"), .doc = "go on behind this event" },
        { "endpoint", 'e', URL(2), .doc = endpoint_doc },
};
static const struct option acp_close_rows[] = {
        { "server-id", 0, ID(0), .doc = server_id_doc },
        { "endpoint", 'e', URL(1), .doc = endpoint_doc },
};

const struct command cli_later[] = {
        { "opencode", .summary = "Open OpenCode's terminal interface on this server (experimental)",
          ROWS(opencode_rows) },
        { "install desktop", .summary = "Install the packages that the desktop needs",
          ROWS(install_desktop_rows) },
        { "install-agent", .args = "[AGENT]", .args_max = 1, .summary = "Install an agent",
          ROWS(install_agent_rows) },
        { "credentials extract", .summary = "Show the credentials found on this machine",
          ROWS(extract_rows) },
        { "credentials extract-env", .summary = "Print the credentials as environment variables",
          ROWS(extract_env_rows) },
        { "api agents list", .summary = "List the agents", ROWS(endpoint_rows) },
        { "api agents report", .summary = "List the agents with their models and modes",
          ROWS(endpoint_rows) },
        { "api agents install", .args = "<AGENT>", .args_min = 1, .args_max = 1,
          .summary = "Install an agent on the server", ROWS(agents_install_rows) },
        { "api acp post", .summary = "Send one ACP message", ROWS(acp_post_rows) },
        { "api acp stream", .summary = "Print the events of an ACP connection",
          ROWS(acp_stream_rows) },
        { "api acp close", .summary = "Close an ACP connection", ROWS(acp_close_rows) },
        { "mock-agent-process", .summary = "Answer ACP messages on stdin as the mock agent",
          .flags = CMD_HIDDEN },
        {},
};
