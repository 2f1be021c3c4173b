# bash completion for cutin(1) and cutin-lab(1).
#
# Commands and options come from the help texts of the very command that is completed, so this file
# knows none of them by name; only what may follow one is here, by what the help texts call it, and the
# words that some options choose from.

_cutin_commands() { # CUTIN
    "$1" help 2>/dev/null | sed -n 's/^  cutin[a-z-]* \([a-z]*\) .*/\1/p'
}

_cutin_options() { # CUTIN COMMAND
    "$1" help "$2" 2>/dev/null | sed -n 's/^  \(-[a-z], \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p'
}

# What the option takes, as in "  --socket PATH  ..."; nothing where it takes none.
_cutin_takes() { # CUTIN COMMAND OPTION
    "$1" help "$2" 2>/dev/null | sed -n "s/^  \(-[a-z], \)\{0,1\}$3 \([A-Z][A-Z_]*\) .*/\2/p
        s/^  $3, --[a-z-]* \([A-Z][A-Z_]*\) .*/\1/p"
}

# The daemon's processes.
_cutin_pids() { # CUTIN
    "$1" list --json 2>/dev/null | sed -n 's/^ *"pid": \([0-9]*\).*/\1/p'
}

_cutin_policies() { # CUTIN
    "$1" policy --list 2>/dev/null | sed -n 's/^\([a-z]*\) .*/\1/p'
}

# The index of the first operand, or of the word that is being completed.
_cutin_first_operand() { # CUTIN COMMAND
    local i=2
    while ((i < COMP_CWORD)); do
        case ${COMP_WORDS[i]} in
        --)
            ((i++))
            break
            ;;
        -*)
            [ -z "$(_cutin_takes "$1" "$2" "${COMP_WORDS[i]}")" ] || ((i++))
            [ "${COMP_WORDS[i]}" != = ] || ((i++))
            ;;
        *) break ;;
        esac
        ((i++))
    done
    echo $((i < COMP_CWORD ? i : COMP_CWORD))
}

_cutin_words() { # WORD...: those that begin with what is there
    mapfile -t COMPREPLY < <(compgen -W "$*" -- "$cur")
}

# Nothing where any value may follow.
_cutin_choices() { # CUTIN COMMAND OPTION
    case "$2 $3" in
    'latency --attach') echo "$(_cutin_pids "$1")" 1 2 rt ;;
    'latency --mode' | 'preset --mode') echo alone native cutin ungated ;;
    *' --stages') echo auto log events ;;
    'replay --arrivals') echo traced periodic poisson closed ;;
    *' --arrivals') echo poisson uniform gamma: trace: closed ;;
    'disb --workload') echo A B C D E REAL ;;
    'disb --mode')
        echo rt-only sequential streams priority-streams native cutin cutin-streams cutin-padding
        ;;
    'whatif --blocks') echo round-robin batches ;;
    'whatif --pages') echo interleaved first-touch ;;
    'whatif --pattern') echo stream stencil mesh sparse table graph uneven ;;
    esac
}

_cutin_value() { # CUTIN COMMAND OPTION, what the help text calls its value
    local choices
    choices=$(_cutin_choices "$1" "$2" "$3")
    if [ -n "$choices" ]; then
        _cutin_words "$choices"
        return
    fi
    case $4 in
    LEVEL) _cutin_words be 1 2 rt ;;
    PATH | FILE | FOLDER | DIRECTORY)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        ;;
    *) COMPREPLY=() ;;
    esac
}

_cutin_program() { # CUTIN COMMAND
    if declare -F _command_offset >/dev/null; then
        _command_offset "$(_cutin_first_operand "$1" "$2")"
    elif [ "$(_cutin_first_operand "$1" "$2")" = "$COMP_CWORD" ]; then
        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
    else
        _cutin_value "$1" "$2" '' FILE
    fi
}

_cutin_operand() { # CUTIN COMMAND
    case $2 in
    run | record) _cutin_program "$1" "$2" ;;
    trace)
        if [[ " ${COMP_WORDS[*]} " == *' --merge '* ]]; then
            _cutin_value "$1" "$2" '' FILE
        else
            _cutin_program "$1" "$2"
        fi
        ;;
    replay | whatif | histogram | plot | report) _cutin_value "$1" "$2" '' FILE ;;
    set | pause | resume | reset) _cutin_words "$(_cutin_pids "$1")" ;;
    policy) _cutin_words "$(_cutin_policies "$1")" ;;
    preset) _cutin_words xsched reef gpreempt mlperf-server ;;
    help) _cutin_words "$(_cutin_commands "$1")" ;;
    *) COMPREPLY=() ;;
    esac
}

_cutin() {
    local cutin=$1 cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} at=$((COMP_CWORD - 1)) takes
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        _cutin_words "$(_cutin_commands "$cutin")"
        return
    fi
    # Behind the program's name everything is the program's own.
    case $command in
    run | record | trace)
        if (($(_cutin_first_operand "$cutin" "$command") < COMP_CWORD)); then
            _cutin_operand "$cutin" "$command"
            return
        fi
        ;;
    esac
    # Readline takes --option=value apart.
    if [ "$cur" = = ]; then
        cur=
    elif [ "${COMP_WORDS[at]}" = = ]; then
        ((at--))
    fi
    takes=
    case ${COMP_WORDS[at]} in
    -?*) takes=$(_cutin_takes "$cutin" "$command" "${COMP_WORDS[at]}") ;;
    esac
    if [ -n "$takes" ]; then
        _cutin_value "$cutin" "$command" "${COMP_WORDS[at]}" "$takes"
    elif [[ $cur == -* ]]; then
        _cutin_words "$(_cutin_options "$cutin" "$command")"
    else
        _cutin_operand "$cutin" "$command"
    fi
}

complete -F _cutin cutin cutin-lab
