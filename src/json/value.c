#include <math.h>
#include <stdlib.h>

#include "json/json.h"

const struct jval *json_get(const struct jval *obj, const char *key)
{
        size_t len = strlen(key);

        if (!obj || obj->type != J_OBJ)
                return NULL;
        /* from the end: of two equal keys the last counts */
        for (size_t i = obj->n; i-- > 0;) {
                const struct jval *kid = &obj->kids[i];

                if (kid->key.len == len && memcmp(kid->key.at, key, len) == 0)
                        return kid;
        }
        return NULL;
}

const char *json_str(const struct jval *v)
{
        return v && v->type == J_STR ? v->text.at : NULL;
}

bool json_i64(const struct jval *v, int64_t *ret)
{
        return v && v->type == J_NUM && str_to_i64(v->text.at, v->text.len, ret);
}

bool json_u64(const struct jval *v, uint64_t *ret)
{
        return v && v->type == J_NUM && str_to_u64(v->text.at, v->text.len, ret);
}

bool json_f64(const struct jval *v, double *ret)
{
        double d;

        if (!v || v->type != J_NUM)
                return false;
        d = strtod(v->text.at, NULL);
        if (!isfinite(d))
                return false;
        *ret = d;
        return true;
}

const char *json_type_name(enum jtype t)
{
        static const char *const names[] = {
                [J_NULL] = "null",  [J_FALSE] = "boolean", [J_TRUE] = "boolean", [J_NUM] = "number",
                [J_STR] = "string", [J_ARR] = "array",     [J_OBJ] = "object",
        };

        return names[t];
}
