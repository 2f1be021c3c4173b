/*
 * report_files.h - a folder of small results for the tests of `cutin-lab report`.
 */
#ifndef CUTIN_TESTS_REPORT_FILES_H
#define CUTIN_TESTS_REPORT_FILES_H

#include <criterion/criterion.h>
#include <stdio.h>

static const char report_latency[] =
    "{\"modes\": {\"alone\": {\"min_us\": 30.5, \"p50_us\": 37.125, \"p90_us\": 40, \"p99_us\": "
    "88.75,"
    " \"p999_us\": 90, \"max_us\": 91.5, \"samples\": 3, \"cdf_us\": [30.5, 37.125, 91.5]},"
    " \"cutin\": {\"p50_us\": 245.25, \"p99_us\": 951.5, \"cdf_us\": [60.5, 245.25, 953.25]}},"
    " \"added_us\": {\"cutin\": {\"p50\": 208.125, \"p99\": 862.75}},"
    " \"be\": {\"cutin\": {\"kernels_per_s\": 4321.5, \"kernels\": 100, \"seconds\": 2.5},"
    " \"cutin_ratio\": 0.98, \"checksum\": \"identical\"},"
    " \"config\": {\"gpu\": \"<script>alert(1)</script>\", \"simulated\": true,"
    " \"version\": \"0.1.0\", \"command\": \"cutin latency --sim\", \"be_kernel_us\": 200,"
    " \"samples\": 3, \"machine\": {\"cpu\": \"A & B \\\"CPU\\\"\", \"cpus\": 2}}}";

static const char report_disb[] =
    "{\"models\": {\"vgg19\": {\"kernels\": 71, \"solo_us\": 2647}}, \"workloads\": {\"A\": "
    "{\"modes\":"
    " {\"rt-only\": {\"rt\": {\"mean_us\": 2711.5, \"p50_us\": 2700, \"p99_us\": 2900, \"p999_us\":"
    " 2950, \"samples\": 500, \"cdf_us\": [2600, 2700, 2901]}, \"rt_vs_alone\": 1,"
    " \"throughput_vs_rt_only\": 1, \"throughput_per_s\": 100},"
    " \"cutin\": {\"rt\": {\"mean_us\": 2760.5, \"p50_us\": 2750, \"p99_us\": 3000, \"p999_us\": "
    "3100,"
    " \"samples\": 500, \"cdf_us\": [2610, 2750, 3003]}, \"rt_vs_alone\": 1.034,"
    " \"throughput_vs_rt_only\": 1.9725, \"throughput_per_s\": 197.25,"
    " \"preempt_us\": {\"p50\": 111.5, \"p99\": 222.5}}}}}, \"config\": {\"simulated\": true}}";

static const char report_trace[] =
    "{\"traceEvents\": ["
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":7,\"tid\":0,\"args\":{\"name\":\"serve "
    "(rt)\"}},"
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":8,\"tid\":0,\"args\":{\"name\":\"<train> "
    "(be)\"}},"
    "{\"ph\":\"X\",\"name\":\"active\",\"cat\":\"cut "
    "in\",\"pid\":7,\"tid\":70,\"ts\":1000,\"dur\":500},"
    "{\"ph\":\"X\",\"name\":\"held\",\"cat\":\"hold\",\"pid\":8,\"tid\":80,\"ts\":1010,\"dur\":480}"
    ","
    "{\"ph\":\"X\",\"name\":\"_Z4gemmILi4EEvPf\",\"cat\":\"device\",\"pid\":8,\"tid\":82,\"ts\":"
    "1100,"
    "\"dur\":300},"
    "{\"ph\":\"X\",\"name\":\"far away\",\"cat\":\"device\",\"pid\":8,\"tid\":81,\"ts\":90000,"
    "\"dur\":480}]}";

static void report_write(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    cr_assert_not_null(f);
    cr_assert_geq(fputs(text, f), 0);
    fclose(f);
}

#endif
