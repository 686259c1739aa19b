//! `cannery completions` and `cannery man`

use std::path::Path;

use cannery_runtime::RealDisk;
use cannery_runtime::disk::{create_dir_all, write_durably};
use clap::CommandFactory as _;

use super::Context;
use crate::cli::Cli;
use crate::failure::{ExitCode, Failure};

pub(crate) fn completions(shell: clap_complete::Shell, context: &Context) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "cannery", &mut script);
    context.output.raw(&script);
    ExitCode::Ok
}

pub(crate) fn man(dir: Option<&Path>, context: &Context) -> Result<ExitCode, Failure> {
    let mut command = Cli::command();
    command.build();
    let Some(dir) = dir else {
        context.output.raw(&page(command)?);
        return Ok(ExitCode::Ok);
    };
    create_dir_all(&RealDisk, dir).map_err(|error| unwritable(dir, &error))?;
    write_pages(&command, "cannery", dir)?;
    Ok(ExitCode::Ok)
}

fn write_pages(command: &clap::Command, name: &str, dir: &Path) -> Result<(), Failure> {
    let path = dir.join(format!("{name}.1"));
    let page = page(command.clone().name(name.to_owned()))?;
    write_durably(&RealDisk, &path, &page).map_err(|error| unwritable(&path, &error))?;
    for sub in command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help")
    {
        write_pages(sub, &format!("{name}-{}", sub.get_name()), dir)?;
    }
    Ok(())
}

fn page(command: clap::Command) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    match clap_mangen::Man::new(command).render(&mut text) {
        Ok(()) => Ok(text),
        Err(error) => Err(Failure::new(
            ExitCode::Error,
            "bug",
            format!("cannot render a page: {error}"),
            "report this",
        )),
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("cannot write `{}`: {error}", path.display());
    Failure::new(
        ExitCode::Error,
        "unwritable",
        message,
        "choose a folder that you may write with `--dir`",
    )
}
