# latency.gp - `cutin latency`: the distribution of each mode.
width = 800
height = 500
load folder.'/common.gp'

set title sprintf('Real-time latency beside best-effort kernels of %.0f us, %.0f samples each', \
    number('config_be_kernel_us'), number('config_samples'))."\n".origin
set logscale x
from = exists('config_loop') && config_loop eq 'open' ? 'arrival' : 'launch'
set xlabel from.' to completion, microseconds (logarithmic)'
set ylabel 'share of samples, percent'
set yrange [0:100]
set grid xtics
set rmargin 5
set key bottom right Left reverse samplen 4 box lc rgb '#cccccc' opaque

drawn = ''
do for [i=1:|MEMBER|] { if (points(1, i)) { drawn = drawn.' '.i } }
if (drawn ne '') {
    plot for [m in drawn] $cdf index block(1, m) using 1:2 \
        with lines lw (dash(MEMBER[m+0]) == 1 ? 2.5 : 1.8) dt dash(MEMBER[m+0]) \
        lc rgb colour(MEMBER[m+0]) title sprintf('%s: p50 %.0f us, p99 %.0f us', \
            MEMBER[m+0], figure(1, m, 1), figure(1, m, 2))
}
