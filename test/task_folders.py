"""Task folders as RoboGen writes them."""

import re

import yaml


def write_task_folder(folder, spec, solution):
    """Write a solution of the task ``spec``; ``folder`` is made when it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    steps = solution.subtasks
    (folder / 'config.yaml').write_text(yaml.safe_dump(config(folder, spec, solution)))
    for name, lines in (('substeps.txt', [step.name for step in steps]),
                        ('substep_types.txt', [step.kind.value for step in steps]),
                        ('action_spaces.txt', [step.action_space.value for step in steps])):
        (folder / name).write_text(''.join(f'{line}\n' for line in lines))
    for index, step in enumerate(steps):
        stem = re.sub(r'\W', '_', step.name)
        (folder / f'{index:02d}_{stem}.py').write_text(step.code)


def config(folder, spec, solution):
    """Return the rows of config.yaml."""
    rows = [{'use_table': True}]
    rows += [{'center': '(0.5, 0.0, 0.0)', 'lang': f'a {name}', 'name': name, 'on_table': True,
              'path': f'{name}.urdf', 'reward_asset_path': name, 'size': 0.2, 'type': 'urdf'}
             for name in solution.scene['objects']]
    rows += [{'solution_path': folder.name}, {'spatial_relationships': []}]
    for key, share in solution.scene['joints'].items():
        thing, _, joint = key.partition('/')
        rows.append({'set_joint_angle_object_name': thing, joint: f'{share:g}'})
    return [*rows, {'task_name': spec.name, 'task_description': spec.description}]
