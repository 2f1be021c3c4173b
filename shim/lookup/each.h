/*
 * each.h - the arguments of a driver function, as a list of (type, name): its parameters, its
 * values, its fields.
 */
#ifndef CUTIN_SHIM_LOOKUP_EACH_H
#define CUTIN_SHIM_LOOKUP_EACH_H

#define EACH_1(f, a)                        f a
#define EACH_2(f, a, ...)                   f a EACH_1(f, __VA_ARGS__)
#define EACH_3(f, a, ...)                   f a EACH_2(f, __VA_ARGS__)
#define EACH_4(f, a, ...)                   f a EACH_3(f, __VA_ARGS__)
#define EACH_5(f, a, ...)                   f a EACH_4(f, __VA_ARGS__)
#define EACH_6(f, a, ...)                   f a EACH_5(f, __VA_ARGS__)
#define EACH_PICK(a, b, c, d, e, g, n, ...) EACH_##n
#define EACH(f, ...)          EACH_PICK(__VA_ARGS__, 6, 5, 4, 3, 2, 1, 0)(f, __VA_ARGS__)
#define OP_FIELD(type, name)  type name;
#define OP_PARAM(type, name)  type name,
#define OP_PARAM_(type, name) , type name
#define OP_VALUE(type, name)  name,
#define OP_VALUE_(type, name) , name
#define OP_INIT(type, name)   .name = name,
#define OP_USE(type, name)    a->name,
#define OP_USE_(type, name)   , a->name

/* `, x, y` -> `x, y` */
#define OP_COMMAS(...)           OP_COMMAS_(__VA_ARGS__)
#define OP_COMMAS_(nothing, ...) __VA_ARGS__

#endif
