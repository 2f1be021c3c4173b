# common.gp - what all pictures share. The caller has set width and height, pixels of an SVG; a PNG
# has twice as many.
#
# plot.c has written what is drawn: GROUP[] and MEMBER[], names; $figures, a line for each
# member of each group; $cdf, a block for each; and config_*, what the result says of itself.

if (format eq 'png') {
    set terminal pngcairo size 2*width, 2*height font 'sans,11' fontscale 1.8 linewidth 1.8 \
        noenhanced background rgb 'white'
} else {
    set terminal svg size width, height dynamic font 'sans-serif,13' noenhanced \
        background rgb 'white'
}
set encoding utf8
set border 3 lc rgb '#333333'
set tics nomirror
set grid ytics lt 1 lc rgb '#d0d0d0' lw 0.6

# Colours that the colour-blind tell apart (Okabe and Ito), and dashes for black-and-white print.
$styles << END
alone            #555555 2
rt-only          #555555 2
native           #d55e00 4
ungated          #e69f00 3
cutin            #0072b2 1
sequential       #e69f00 3
streams          #009e73 5
priority-streams #cc79a7 6
cutin-streams    #56b4e9 7
cutin-padding    #f0e442 8
bare             #555555 2
pass_through     #009e73 5
inline           #0072b2 1
buffered         #e69f00 3
END
style(name) = sum [i=1:|$styles|] (word($styles[i], 1) eq name ? i : 0)
colour(name) = style(name) ? word($styles[style(name)], 2) : '#000000'
dash(name) = style(name) ? 0 + word($styles[style(name)], 3) : 1

text(name) = exists(name) ? value(name) : ''
number(name) = exists(name) ? value(name) : NaN
known(x) = x == x
larger(x, y) = known(y) && !(x > y) ? y : x
smaller(x, y) = known(y) && !(x < y) ? y : x

# How many percentiles a member has, its k-th figure, and the block of $cdf.
points(group, member) = 0 + word($figures[(group - 1) * |MEMBER| + member], 1)
figure(group, member, k) = 0.0 + word($figures[(group - 1) * |MEMBER| + member], k + 1)
block(group, member) = (group - 1) * |MEMBER| + member - 1

# The last line of a title: where the figures come from.
gpu = text('config_gpu')
simulated = exists('config_simulated') && config_simulated
cpu = text('config_machine_cpu')
origin = (gpu ne '' ? gpu : simulated ? 'simulated GPU' : 'GPU') \
    .(simulated && gpu ne '' && !strstrt(gpu, 'simulated') ? ' (simulated)' : '') \
    .(cpu ne '' ? sprintf(' on %g x %s', larger(1, number('config_machine_cpus')), cpu) : '') \
    .', cutin '.text('config_version')
