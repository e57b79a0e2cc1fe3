"""Package metadata. The version lives in arena_robot/__init__.py, the pins in requirements.txt."""

import re
from glob import glob
from pathlib import Path
from runpy import run_path

from setuptools import find_packages, setup

NAME = 'arena_robot'
VERSION = re.search(r"__version__ = '(.+)'", Path(NAME, '__init__.py').read_text()).group(1)
MODULES = run_path(f'{NAME}/nodes/executables.py')['MODULES']

setup(
    name=NAME,
    version=VERSION,
    packages=find_packages(include=[NAME, f'{NAME}.*']),
    package_data={NAME: ['**/*']},
    exclude_package_data={'': ['*.pyc', '__pycache__/*']},
    data_files=[
        ('share/ament_index/resource_index/packages', [f'resource/{NAME}']),
        (f'share/{NAME}', ['package.xml']),
        (f'share/{NAME}/launch', glob('launch/*.launch.py')),
        (f'share/{NAME}/config', [path for path in glob('config/*') if Path(path).is_file()]),
        (f'share/{NAME}/config/stations', glob('config/stations/*.yaml')),
        (f'share/{NAME}/config/deploy', [path for path in glob('config/deploy/*')
                                         if Path(path).is_file()]),
    ],
    install_requires=['setuptools'],
    # For the library alone, without ROS: `pip install arena-robot[ranking]`.
    # `rl`: reinforcement learning of skills, `arena skill run --learner sac`.
    extras_require={'test': ['pytest'], 'ranking': ['numpy', 'scipy'],
                    'rl': ['torch>=2.3,<3', 'stable-baselines3>=2.4,<3', 'gymnasium>=0.29,<2']},
    zip_safe=False,
    author='arena_robot contributors',
    maintainer='arena_robot maintainers',
    maintainer_email='maintainers@arena-robot.org',
    description='Double-blind comparison of robot policies on DROID stations.',
    license='Apache-2.0',
    python_requires='>=3.10,<3.14',
    # One executable per node, with the node's name, for `ros2 run`.
    entry_points={'console_scripts': [
        'arena = arena_robot.cli.main:main',
        *(f'{name} = {module}:main' for name, module in MODULES.items()),
    ]},
)
