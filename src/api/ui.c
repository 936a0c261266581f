#include "api/api.h"
#include "http/req.h"
#include "http/route.h"
#include "http/static.h"
#include "ui/assets.h"

static int get_index(struct req *r, struct error *err)
{
        return static_serve(r, ui_assets, "index.html", err);
}

static int get_file(struct req *r, struct error *err)
{
        const char *path = req_param(r, "path");

        return static_serve(r, ui_assets, path[0] ? path : "index.html", err);
}

const struct route api_ui[] = {
        { "GET", "/ui", get_index, R_OPEN | R_HIDDEN, .doc = "The page." },
        { "GET", "/ui/{path*}", get_file, R_OPEN | R_HIDDEN,
          .doc = "Files of the page; other paths show the page." },
        { 0 },
};
