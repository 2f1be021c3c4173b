/*
 * table.c - handles that are looked up while their table grows.
 */
#include "shim/handles/table.h"

#include <criterion/criterion.h>

enum { OTHERS = 1000 };

TABLE(things);
static struct table_node first, second, others[OTHERS];
static const char names[OTHERS + 1];
static const void *const both = names;
static unsigned looks, inserted;

static void insert_until(unsigned count)
{
    for (; inserted < count; inserted++)
        table_insert(&things, &others[inserted], &names[inserted + 1]);
}

/* Inserts `count` things when the walk is at the first of the two. */
static bool is_first(const struct table_node *n, const void *count)
{
    if (looks++ == 0)
        insert_until(*(const unsigned *)count);
    return n == &first;
}

static struct table_node *found_while(unsigned inserts)
{
    table_insert(&things, &first, both);
    table_insert(&things, &second, both); /* in front of the first */
    return table_find_where(&things, both, is_first, &inserts);
}

Test(table, walk_continues_after_one_growth)
{
    cr_assert_eq(found_while(TABLE_FIRST / 2), &first);
    cr_assert_eq(things.buckets->smaller->mask, TABLE_FIRST - 1);
    cr_assert_eq(looks, 2);
}

Test(table, walk_finds_node_after_several_growths)
{
    cr_assert_eq(found_while(OTHERS), &first);
    cr_assert_gt(things.buckets->mask, 4 * TABLE_FIRST);
}

Test(table, growth_and_removal_keep_other_nodes)
{
    found_while(OTHERS);
    for (unsigned i = 0; i < OTHERS; i++)
        cr_assert_eq(table_find(&things, &names[i + 1]), &others[i]);
    cr_assert(table_remove(&things, &others[0]));
    cr_assert_not(table_remove(&things, &others[0]));
    struct table_node *taken = table_take(&things, both, NULL, NULL);
    cr_assert(taken == &first || taken == &second);
    cr_assert_eq(taken->next[0], taken == &first ? &second : &first);
    cr_assert_null(taken->next[0]->next[0]);
    cr_assert_null(table_find(&things, both));
    cr_assert_eq(things.count, OTHERS - 1);
    cr_assert_eq(table_find(&things, &names[OTHERS]), &others[OTHERS - 1]);
}
