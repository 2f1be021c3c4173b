/*
 * install.c - an installed tree works where it was put: programs find the header and flags by
 * pkg-config, and the installed command finds its own parts.
 */
#include "tests/integration/process.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(install, .init = sandbox_enter, .fini = sandbox_leave);

static const char *prefix(const char *rest)
{
    char name[300];

    snprintf(name, sizeof(name), "prefix/%s", rest);
    return sandbox_path(name);
}

static void run_ok(const char *const argv[], const char *const env[])
{
    struct process *p = process_run(argv, env, 60);

    cr_assert_eq(p->status, 0, "%s: status %d\n%s%s", argv[0], p->status, process_out(p),
                 process_err(p));
    process_free(p);
}

static void install_tree(void)
{
    run_ok((const char *[]){"cmake", "--install", BUILD_FOLDER, "--prefix", sandbox_path("prefix"),
                            NULL},
           NULL);
}

/* CMAKE_LIBDIR is lib, or lib/ARCHITECTURE on systems that want that. */
static const char *library(const char *name)
{
    char rest[200];

    snprintf(rest, sizeof(rest), CMAKE_LIBDIR "/%s", name);
    return prefix(rest);
}

Test(install, everything_is_in_its_place)
{
    static const char *const places[] = {"bin/cutin",
                                         "bin/cutin-lab",
                                         "include/cutin.h",
                                         "share/man/man1/cutin.1",
                                         "share/man/man1/cutin-lab.1",
                                         "share/man/man5/cutind.conf.5",
                                         "share/man/man7/cutin.7",
                                         "share/man/man7/cutin-slurm.7",
                                         "share/man/man8/cutind.8",
                                         "share/bash-completion/completions/cutin",
                                         "share/bash-completion/completions/cutin-lab",
                                         "share/cutin/report/latency.gp",
                                         "share/cutin/report/page.html",
                                         "lib/systemd/system/cutind.socket",
                                         "lib/systemd/system/cutind.service",
                                         "lib/systemd/user/cutind.socket",
                                         "lib/systemd/user/cutind.service",
                                         "lib/sysusers.d/cutin.conf",
                                         "lib/tmpfiles.d/cutin.conf",
                                         "bin/cutind"};
    static const char *const libraries[] = {"libcutin.so", "pkgconfig/cutin.pc",
                                            "cutin/simgpu/libcuda.so.1",
                                            "cutin/libcutin_distance.so"};

    install_tree();
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        cr_expect_eq(access(prefix(places[i]), R_OK), 0, "%s is missing", places[i]);
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        cr_expect_eq(access(library(libraries[i]), R_OK), 0, "%s is missing", libraries[i]);
    /* The loader finds no simulated driver in the library folder by accident. */
    cr_expect_neq(access(library("libcuda.so.1"), F_OK), 0);
}

/* What others put there stays, and so do the folders that it is in. */
Test(install, uninstall_removes_only_installed_files)
{
    char build[] = "-DBUILD=" BUILD_FOLDER, option[300], command[600];
    struct process *p;

    install_tree();
    run_ok((const char *[]){"touch", prefix("bin/other"), prefix("share/cutin/report/mine"), NULL},
           NULL);
    snprintf(option, sizeof(option), "-DPREFIX=%s", sandbox_path("prefix"));
    run_ok((const char *[]){"cmake", build, option, "-P",
                            SOURCE_DIR "/tools/packaging/uninstall.cmake", NULL},
           NULL);
    snprintf(command, sizeof(command),
             "cd %s && find . ! -type d -printf '%%P\\n' | sort && find . -name simgpu",
             sandbox_path("prefix"));
    p = process_run((const char *[]){"sh", "-c", command, NULL}, NULL, 60);
    cr_expect_str_eq(process_out(p), "bin/other\nshare/cutin/report/mine\n");
    process_free(p);
}

Test(install, a_program_builds_with_pkg_config_and_runs)
{
    char pkg_config_path[300], command[1000];
    FILE *f;

    install_tree();
    f = fopen(sandbox_path("program.c"), "w");
    cr_assert_not_null(f);
    fputs("#include <cutin.h>\n"
          "#include <stdio.h>\n"
          "int main(void) { return puts(\"built\") < 0; }\n",
          f);
    fclose(f);
    snprintf(pkg_config_path, sizeof(pkg_config_path), "PKG_CONFIG_PATH=%s", library("pkgconfig"));
    snprintf(command, sizeof(command),
             "gcc -Wall -Werror %s -o %s -isystem %s $(pkg-config --cflags cutin)",
             sandbox_path("program.c"), sandbox_path("program"), CUDA_INCLUDE);
    run_ok((const char *[]){"sh", "-c", command, NULL}, (const char *[]){pkg_config_path, NULL});
    run_ok((const char *[]){prefix("bin/cutin"), "run", "--sim", "--no-daemon", "--",
                            sandbox_path("program"), NULL},
           NULL);
    run_ok((const char *[]){prefix("bin/cutin"), "run", "--sim", "--no-daemon", "--",
                            BIN_DIR "/examples/be_training", "--steps", "20", NULL},
           NULL);
}

Test(install, report_works_in_moved_tree)
{
    struct process *p;

    install_tree();
    run_ok((const char *[]){"mv", sandbox_path("prefix"), sandbox_path("moved"), NULL}, NULL);
    run_ok((const char *[]){"sh", "-c",
                            "mkdir \"$0\" && cp \"$1\" \"$0\" && cd / && \"$2\" report \"$0\"",
                            sandbox_path("results"), SOURCE_DIR "/docs/results/latency.json",
                            sandbox_path("moved/bin/cutin-lab"), NULL},
           NULL);
    p = process_run((const char *[]){"grep", "-c", "cutin: p50 [0-9]* us",
                                     sandbox_path("results/report.html"), NULL},
                    NULL, 60);
    if (system("command -v gnuplot >/dev/null") == 0)
        cr_expect_eq(p->status, 0, "no plot in the page");
    process_free(p);
}
